//! The container image that `Containerfile` describes, written without a container engine: an OCI image layout in one tar, which
//! `podman load`, `skopeo` and `docker load` take.
//!
//! The image has one layer, which is not packed, so that its digest is also what the OCI specification calls its diff ID.

use super::{sha256, tar};
use crate::Chore;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

/// What the image is like. The same file is for those who have an engine.
const CONTAINERFILE: &str = include_str!("../../../Containerfile");

/// Writes the image of the files in `folder` to `to`. `arch` is what the OCI specification calls an architecture.
pub fn write(folder: &Path, version: &str, arch: &str, to: &Path) -> Chore {
    let described = Described::of(CONTAINERFILE)?;
    let failed = |e: std::io::Error| format!("{}: {e}", to.display());
    let layout = to.with_extension("layout");
    if layout.exists() {
        fs::remove_dir_all(&layout).map_err(failed)?;
    }
    let (blobs, rootfs) = (layout.join("blobs/sha256"), layout.join("rootfs"));
    fs::create_dir_all(&blobs).map_err(failed)?;
    fs::create_dir_all(rootfs.join(described.folder.trim_start_matches('/'))).map_err(failed)?;
    for file in &described.files {
        fs::copy(folder.join(file), rootfs.join(file)).map_err(|e| format!("{file}: {e}"))?;
    }
    let names: Vec<String> =
        fs::read_dir(&rootfs).map_err(failed)?.flatten().filter_map(|e| e.file_name().into_string().ok()).collect();
    let mut names: Vec<&str> = names.iter().map(String::as_str).collect();
    names.sort_unstable();
    tar(&rootfs, &names, &layout.join("layer"), false)?;
    let layer = blob(&blobs, &layout.join("layer"))?;
    let config = blob_of(&blobs, &described.config(version, arch, &layer.digest))?;
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": config.named("application/vnd.oci.image.config.v1+json"),
        "layers": [layer.named("application/vnd.oci.image.layer.v1.tar")],
    });
    let mut manifest = blob_of(&blobs, &manifest)?.named("application/vnd.oci.image.manifest.v1+json");
    manifest["platform"] = json!({ "os": "linux", "architecture": arch });
    // Podman and containerd call the image by the second name once it is loaded, and would call it "0.1.0" by the first alone.
    manifest["annotations"] = json!({
        "org.opencontainers.image.ref.name": version,
        "io.containerd.image.name": format!("localhost/vesica:{version}"),
    });
    let index = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [manifest],
    });
    // What versions of Docker before 25 read.
    let path = |blob: &Blob| format!("blobs/sha256/{}", blob.digest);
    let older =
        json!([{ "Config": path(&config), "RepoTags": [format!("vesica:{version}")], "Layers": [path(&layer)] }]);
    for (file, value) in
        [("oci-layout", json!({ "imageLayoutVersion": "1.0.0" })), ("index.json", index), ("manifest.json", older)]
    {
        fs::write(layout.join(file), value.to_string()).map_err(failed)?;
    }
    tar(&layout, &["blobs", "index.json", "manifest.json", "oci-layout"], to, false)?;
    fs::remove_dir_all(&layout).map_err(failed)
}

/// A file under the name of its digest.
struct Blob {
    digest: String,
    bytes: u64,
}

impl Blob {
    fn named(&self, media: &str) -> Value {
        json!({ "mediaType": media, "digest": format!("sha256:{}", self.digest), "size": self.bytes })
    }
}

fn blob(blobs: &Path, file: &Path) -> Result<Blob, String> {
    let digest = sha256(file)?;
    let to = blobs.join(&digest);
    fs::rename(file, &to).map_err(|e| format!("{}: {e}", to.display()))?;
    let bytes = to.metadata().map_err(|e| format!("{}: {e}", to.display()))?.len();
    Ok(Blob { digest, bytes })
}

fn blob_of(blobs: &Path, value: &Value) -> Result<Blob, String> {
    let file = blobs.join("new");
    fs::write(&file, value.to_string()).map_err(|e| format!("{}: {e}", file.display()))?;
    blob(blobs, &file)
}

/// What a Containerfile says, of the instructions that ours has.
#[derive(Default, Debug)]
struct Described {
    files: Vec<String>,
    user: String,
    folder: String,
    env: Vec<String>,
    entrypoint: Vec<String>,
}

impl Described {
    fn of(text: &str) -> Result<Self, String> {
        let mut described = Self::default();
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let unknown = || format!("Containerfile: {line:?} is an instruction that `cargo xtask dist` does not know");
            let (instruction, rest) = line.split_once(' ').ok_or_else(unknown)?;
            match instruction {
                "FROM" if rest == "scratch" => {}
                "COPY" => {
                    let files = rest.strip_suffix(" /").ok_or_else(unknown)?;
                    described.files.extend(files.split(' ').map(str::to_owned));
                }
                "USER" => described.user = rest.to_owned(),
                "WORKDIR" => described.folder = rest.to_owned(),
                "ENV" => described.env.push(rest.to_owned()),
                "ENTRYPOINT" => described.entrypoint = serde_json::from_str(rest).map_err(|_| unknown())?,
                _ => return Err(unknown()),
            }
        }
        Ok(described)
    }

    fn config(&self, version: &str, arch: &str, layer: &str) -> Value {
        json!({
            "architecture": arch,
            "os": "linux",
            "config": {
                "User": self.user,
                "Env": self.env,
                "Entrypoint": self.entrypoint,
                "WorkingDir": self.folder,
                "Labels": {
                    "org.opencontainers.image.title": "vesica",
                    "org.opencontainers.image.version": version,
                    "org.opencontainers.image.licenses": env!("CARGO_PKG_LICENSE"),
                    "org.opencontainers.image.source": env!("CARGO_PKG_REPOSITORY"),
                },
            },
            "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{layer}")] },
            "history": [{ "created_by": "cargo xtask dist" }],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output;
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;

    fn read(path: &Path) -> Value {
        serde_json::from_str(&fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))).unwrap()
    }

    /// The blob that a descriptor names, after its digest and its size were compared.
    fn named(layout: &Path, descriptor: &Value) -> PathBuf {
        let digest = descriptor["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap();
        let path = layout.join("blobs/sha256").join(digest);
        assert_eq!(sha256(&path).unwrap(), digest);
        assert_eq!(path.metadata().unwrap().len(), descriptor["size"].as_u64().unwrap());
        path
    }

    #[test]
    fn the_image_is_what_the_containerfile_says_and_its_digests_hold() {
        let dir = std::env::temp_dir().join(format!("xtask-image-{}", std::process::id()));
        let (from, layout, rootfs) = (dir.join("from"), dir.join("layout"), dir.join("rootfs"));
        for folder in [&from, &layout, &rootfs] {
            fs::create_dir_all(folder).unwrap();
        }
        for file in ["vesica", "LICENSE", "LICENSES.txt", "sbom.cdx.json", "not-copied"] {
            fs::write(from.join(file), file).unwrap();
        }
        fs::set_permissions(from.join("vesica"), fs::Permissions::from_mode(0o755)).unwrap();
        let image = dir.join("vesica.oci.tar");
        write(&from, "1.2.3", "amd64", &image).unwrap();
        let unpack = |tar: &Path, to: &Path| {
            let (tar, to) = (tar.to_str().unwrap(), to.to_str().unwrap());
            output("tar", &["--extract", "--file", tar, "--directory", to]).unwrap();
        };
        unpack(&image, &layout);
        let index = read(&layout.join("index.json"));
        let manifest = read(&named(&layout, &index["manifests"][0]));
        let config = read(&named(&layout, &manifest["config"]));
        let layer = named(&layout, &manifest["layers"][0]);
        assert_eq!(config["rootfs"]["diff_ids"][0], manifest["layers"][0]["digest"], "the layer is not packed");
        assert_eq!(config["config"]["User"], "65532:65532", "not root");
        assert_eq!(config["config"]["Entrypoint"], json!(["/vesica"]));
        assert_eq!(config["config"]["WorkingDir"], "/data");
        let source = &config["config"]["Labels"]["org.opencontainers.image.source"];
        assert!(source.as_str().is_some_and(|source| source.starts_with("https://")), "{source}");
        assert_eq!((&config["os"], &config["architecture"]), (&json!("linux"), &json!("amd64")));
        let older = read(&layout.join("manifest.json"));
        assert!(layer.ends_with(Path::new(older[0]["Layers"][0].as_str().unwrap()).file_name().unwrap()));

        unpack(&layer, &rootfs);
        assert_eq!(fs::read_to_string(rootfs.join("vesica")).unwrap(), "vesica");
        assert_eq!(rootfs.join("vesica").metadata().unwrap().permissions().mode() & 0o777, 0o755);
        assert!(rootfs.join("data").is_dir() && !rootfs.join("not-copied").exists());
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn an_instruction_that_is_not_understood_is_an_error() {
        for line in ["RUN true", "FROM debian", "COPY a /b", "ENTRYPOINT vesica", "USER"] {
            assert!(Described::of(line).unwrap_err().contains("Containerfile"), "{line}");
        }
    }
}
