//! The archive of an image: one layer, its configuration and manifest, and the indexes by which OCI's tools and docker find them.

use super::{
    Image, ImageError, Node, Tree,
    tar::{Tar, at},
};
use aws_lc_rs::digest::{Context, SHA256};
use serde_json::{Value, json};
use std::{
    fs::File,
    io::{self, Write},
};

const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";
/// When everything was made.
const MADE: &str = "1970-01-01T00:00:00Z";

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// How a registry would name these very bytes.
    pub digest: String,
    /// Bytes of the layer.
    pub size: u64,
    pub files: usize,
}

/// Writes the archive of an image with this name, `host/path:tag`. The files are read twice: a layer's name is its digest, and comes before it.
pub fn write(image: &Image, name: &str, out: impl Write) -> Result<Summary, ImageError> {
    let Image { tree, entrypoint, command } = image;
    let layer = layer(tree, Hashed::new(io::sink()))?.blob();
    let config = json!({
        "created": MADE,
        "architecture": architecture(),
        "os": "linux",
        "config": {"Entrypoint": entrypoint, "Cmd": command, "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"], "WorkingDir": "/"},
        "rootfs": {"type": "layers", "diff_ids": [layer.digest()]},
        "history": [{"created": MADE, "created_by": "twinstack image"}],
    });
    let (config, config_text) = text(&config);
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": config.described(CONFIG),
        "layers": [layer.described(LAYER)],
    });
    let (manifest, manifest_text) = text(&manifest);
    let mut described = manifest.described(MANIFEST);
    described["platform"] = json!({"architecture": architecture(), "os": "linux"});
    // The first is containerd's word, the second OCI's.
    described["annotations"] =
        json!({"io.containerd.image.name": name, "org.opencontainers.image.ref.name": tag(name)});
    let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [described]}).to_string();
    let docker = json!([{"Config": config.path(), "RepoTags": [name], "Layers": [layer.path()]}]).to_string();

    let mut archive = Tar::new(out);
    let mut put = |path: &str, text: &str| archive.file(path, 0o644, text.len() as u64, text.as_bytes());
    put("oci-layout", r#"{"imageLayoutVersion":"1.0.0"}"#)?;
    put("index.json", &index)?;
    put("manifest.json", &docker)?;
    put(&config.path(), &config_text)?;
    put(&manifest.path(), &manifest_text)?;
    let archive = stream_layer(archive, tree, &layer)?;
    archive.finish()?;
    let files = tree.values().filter(|node| !matches!(node, Node::Folder(_))).count();
    Ok(Summary { digest: manifest.digest(), size: layer.size, files })
}

/// `v1` of `host:5000/path:v1`.
fn tag(name: &str) -> &str {
    let last = name.rsplit('/').next().unwrap_or(name);
    last.split_once(':').map_or("latest", |(_, tag)| tag)
}

/// As Go names it.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// The layer once more, now as a file of the archive.
fn stream_layer<W: Write>(archive: Tar<W>, tree: &Tree, expected: &Blob) -> Result<Tar<W>, ImageError> {
    archive.nested(&expected.path(), expected.size, |out| {
        let written = layer(tree, Hashed::new(out))?.blob();
        if written == *expected { Ok(()) } else { Err(ImageError::Changed("a file of the image".to_owned())) }
    })
}

fn layer<W: Write>(tree: &Tree, out: W) -> Result<W, ImageError> {
    let mut tar = Tar::new(out);
    for (path, node) in tree {
        match node {
            Node::Folder(mode) => tar.folder(path, *mode)?,
            Node::Link(target) => tar.link(path, target)?,
            Node::Program(bytes) => tar.file(path, 0o755, bytes.len() as u64, bytes.as_slice())?,
            Node::Text(text) => tar.file(path, 0o644, text.len() as u64, text.as_bytes())?,
            Node::Copy(source) => {
                let name = source.display().to_string();
                let file = File::open(source).map_err(|error| at(&name, error))?;
                let size = file.metadata().map_err(|error| at(&name, error))?.len();
                // Everybody may run it: Pods have users of their own.
                tar.file(path, 0o755, size, file)?;
            }
        }
    }
    tar.finish()
}

/// Counts and digests what goes through.
struct Hashed<W> {
    out: W,
    context: Context,
    size: u64,
}

impl<W> Hashed<W> {
    fn new(out: W) -> Self {
        Self { out, context: Context::new(&SHA256), size: 0 }
    }

    fn blob(self) -> Blob {
        let digest = self.context.finish();
        Blob { hex: digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect(), size: self.size }
    }
}

impl<W: Write> Write for Hashed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = self.out.write(bytes)?;
        self.context.update(&bytes[..taken]);
        self.size += taken as u64;
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Something that is named by what it holds.
#[derive(PartialEq, Eq)]
struct Blob {
    hex: String,
    size: u64,
}

impl Blob {
    fn digest(&self) -> String {
        format!("sha256:{}", self.hex)
    }

    fn path(&self) -> String {
        format!("blobs/sha256/{}", self.hex)
    }

    fn described(&self, kind: &str) -> Value {
        json!({"mediaType": kind, "digest": self.digest(), "size": self.size})
    }
}

fn text(value: &Value) -> (Blob, String) {
    let text = value.to_string();
    let mut hashed = Hashed::new(io::sink());
    // A sink takes everything.
    let _ = hashed.write_all(text.as_bytes());
    (hashed.blob(), text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tag_is_what_follows_the_last_part() {
        for (name, expected) in [
            ("twinstack", "latest"),
            ("localhost:5000/twinstack", "latest"),
            ("localhost:5000/a/twinstack:v1", "v1"),
            ("registry.example.test/twinstack:1.2", "1.2"),
        ] {
            assert_eq!(tag(name), expected, "{name}");
        }
    }

    #[test]
    fn the_same_files_give_the_same_image_and_others_another() {
        let image = |text| {
            let tree = Tree::from([("etc".to_owned(), Node::Folder(0o755)), ("etc/x".to_owned(), Node::Text(text))]);
            Image { tree, entrypoint: vec!["/x".to_owned()], command: Vec::new() }
        };
        let (mut first, mut second) = (Vec::new(), Vec::new());
        let summary = write(&image("abc"), "x:1", &mut first).unwrap();
        assert_eq!(write(&image("abc"), "x:1", &mut second).unwrap(), summary);
        assert!(first == second);
        assert_eq!((summary.files, summary.size), (1, 5 * 512));
        assert_ne!(write(&image("abd"), "x:1", Vec::new()).unwrap().digest, summary.digest);
    }
}
