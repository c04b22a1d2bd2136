"""Has Helm itself read the chart, and holds what it makes, and the plain manifest, against the schemas of Kubernetes.

Needs `pip install helm-python-sdk kubernetes-validate`; exits with 3 where they are not installed. Prints all manifests, one after another,
with a line of three hyphens between two.
"""

import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
CHART = HERE / "helm" / "vesica"
# Indented and with what YAML and templates have a meaning for: it has to come out byte for byte.
DOCUMENT = '  [mine]\n\tname = "alice" # {{ no template }} & <none>\n\n'
COMMON = {"document": DOCUMENT, "keys": "alice-identity", "data": "vesica", "keysImage": "busybox@sha256:" + "ab" * 32}
# Values of one who installs it, and the kinds that come of them.
GOOD: list[tuple[dict[str, Any], list[str]]] = [
    ({"command": "run"}, ["ConfigMap", "Job", "Service"]),
    ({"command": "run", "port": 0, "metricsPort": 9400}, ["ConfigMap", "Job"]),
    ({"command": "run", "schedule": "0 3 * * *", "nodeSelector": {"disk": "fast"}}, ["ConfigMap", "CronJob", "Service"]),
    ({"command": "prepare", "metricsPort": 9400}, ["ConfigMap", "Job"]),
    ({"command": "serve", "metricsPort": 9400, "service": {"type": "LoadBalancer"}}, ["ConfigMap", "Deployment", "Service"]),
    ({"command": "serve", "service": {"annotations": {"a": "b"}}, "tolerations": [{"key": "t", "operator": "Exists"}]}, ["ConfigMap", "Deployment", "Service"]),
]
# What is refused, and a word of the reason.
BAD: list[tuple[dict[str, Any], str]] = [
    ({"command": "walk"}, "command"),
    ({"command": "serve", "port": 0}, "give the one of mine.listen"),
    ({"keys": ""}, "name a Secret"),
    ({"data": ""}, "name a claim"),
    ({"document": ""}, "give the job file"),
    ({"recources": {}}, "recources"),
    ({"keysImage": "busybox:1.37"}, "keysImage"),
    ({"keysImage": ""}, "by its digest"),
]


def main() -> int:
    try:
        import helm_python
        import kubernetes_validate
        import yaml
    except ImportError as error:
        print(f"{error}: pip install helm-python-sdk kubernetes-validate", file=sys.stderr)
        return 3
    version = kubernetes_validate.latest_version()

    def made(values: dict[str, Any]) -> list[str]:
        with helm_python.Chart.load(CHART) as chart:
            chart.validate_schema(COMMON | values)
            parts = chart.render(COMMON | values, name="match-with-bob")
        return [text for path, text in sorted(parts.items()) if path.endswith(".yaml") and text.strip()]

    all_of_it = [(HERE / "kubernetes" / "job.yaml").read_text()]
    for values, kinds in GOOD:
        report = helm_python.lint(CHART, COMMON | values, strict=True)
        findings = [m for m in report["messages"] if m["severity"] >= 2]
        assert not findings and not report.get("errors"), (values, report)
        parts = made(values)
        assert sorted(yaml.safe_load(part)["kind"] for part in parts) == kinds, (values, parts)
        document = next(yaml.safe_load(part) for part in parts if "kind: ConfigMap" in part)["data"]["vesica.toml"]
        assert document == DOCUMENT, document
        # What prepares a store answers nobody: asked whether it lives, it would be killed at its work.
        probed = any("livenessProbe" in part for part in parts)
        assert probed == ("metricsPort" in values and values["command"] != "prepare"), (values, parts)
        all_of_it += parts
    for text in all_of_it:
        assert ("fsGroup: " in text) == ("fsGroupChangePolicy: OnRootMismatch" in text), text
        kubernetes_validate.validate(yaml.safe_load(text), version, strict=True)
    for values, word in BAD:
        try:
            parts = made(values)
        except helm_python.HelmError as error:
            assert word in str(error), (values, error)
        else:
            raise AssertionError(f"{values} are not refused: {parts}")
    print("\n---\n".join(all_of_it))
    return 0


if __name__ == "__main__":
    sys.exit(main())
