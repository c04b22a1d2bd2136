{{- define "vesica.labels" -}}
app.kubernetes.io/name: vesica
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "vesica.meta" -}}
name: {{ .Release.Name }}
labels:
  {{- include "vesica.labels" . | nindent 2 }}
  app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
  app.kubernetes.io/managed-by: {{ .Release.Service }}
  helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "vesica.restricted" -}}
readOnlyRootFilesystem: true
allowPrivilegeEscalation: false
capabilities: { drop: [ALL] }
{{- end }}

{{- define "vesica.pod" -}}
metadata:
  labels:
    {{- include "vesica.labels" . | nindent 4 }}
  annotations:
    # What a service does not read again while it runs takes a restart.
    checksum/document: {{ .Values.document | sha256sum }}
spec:
  restartPolicy: {{ if eq .Values.command "serve" }}Always{{ else }}Never{{ end }}
  automountServiceAccountToken: false
  # Clients at work have 30 s to finish.
  terminationGracePeriodSeconds: 45
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    fsGroup: 65532
    # Otherwise each mount of the volume gives the group all files, and a key that a group may read is refused.
    fsGroupChangePolicy: OnRootMismatch
    seccompProfile: { type: RuntimeDefault }
  initContainers:
    # A key that a group may read is refused, and a mounted secret is such a file. This copy, in memory, is the program's user's alone.
    - name: key
      image: {{ required "keysImage: name an image with a shell by its digest, such as busybox@sha256:…" .Values.keysImage }}
      command: [sh, -c, "umask 077 && cp -f /secret/* /key/"]
      securityContext:
        {{- include "vesica.restricted" . | nindent 8 }}
      resources: { requests: { cpu: 10m, memory: 16Mi }, limits: { memory: 16Mi } }
      volumeMounts:
        - { name: secret, mountPath: /secret, readOnly: true }
        - { name: key, mountPath: /key }
  containers:
    - name: vesica
      image: {{ printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args: [{{ .Values.command }}, /job/vesica.toml{{ if ne .Values.command "prepare" }}, --log, json{{ end }}]
      {{- if and (or .Values.port .Values.metricsPort) (ne .Values.command "prepare") }}
      ports:
        {{- with .Values.port }}
        - { name: vesica, containerPort: {{ . }} }
        {{- end }}
        {{- with .Values.metricsPort }}
        - { name: metrics, containerPort: {{ . }} }
        {{- end }}
      {{- end }}
      {{- if and .Values.metricsPort (ne .Values.command "prepare") }}
      livenessProbe:
        httpGet: { path: /healthz, port: metrics }
        periodSeconds: 30
        failureThreshold: 10
      {{- if eq .Values.command "serve" }}
      readinessProbe:
        httpGet: { path: /readyz, port: metrics }
      {{- end }}
      {{- end }}
      securityContext:
        {{- include "vesica.restricted" . | nindent 8 }}
      resources:
        {{- toYaml .Values.resources | nindent 8 }}
      volumeMounts:
        - { name: job, mountPath: /job, readOnly: true }
        - { name: key, mountPath: /key, readOnly: true }
        - { name: data, mountPath: /data }
  {{- with .Values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  volumes:
    - { name: job, configMap: { name: {{ .Release.Name }} } }
    - { name: secret, secret: { secretName: {{ required "keys: name a Secret with the identity" .Values.keys }}, defaultMode: 0440 } }
    - { name: key, emptyDir: { medium: Memory, sizeLimit: 1Mi } }
    - { name: data, persistentVolumeClaim: { claimName: {{ required "data: name a claim to a volume" .Values.data }} } }
{{- end }}

{{- define "vesica.job" -}}
backoffLimit: {{ .Values.retries }}
podFailurePolicy:
  rules:
    # It would happen again: the job or the machine, the input, the partner, a defect. 4 is the network.
    - action: FailJob
      onExitCodes: { containerName: vesica, operator: In, values: [2, 3, 5, 70] }
    # A node that was drained does not count.
    - action: Ignore
      onPodConditions: [{ type: DisruptionTarget }]
template:
  {{- include "vesica.pod" . | nindent 2 }}
{{- end }}
