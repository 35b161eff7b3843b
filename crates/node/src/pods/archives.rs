//! Images in a folder of archives (`--image-dir`): which names each has, and how they come into the runtime.
//!
//! An archive is what `twinstack image`, `docker save`, `skopeo copy` or `ctr images export` write. It is looked into before any registry.

use kernel::process::{self, ProcessError};
use parking_lot::Mutex;
use serde_json::Value;
use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::{self, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
};

/// The folder, and which of its archives the runtime has been given.
#[derive(Debug)]
pub struct Archives {
    folder: Option<PathBuf>,
    /// The runtime's socket, as `ctr` takes it.
    address: String,
    given: Mutex<BTreeSet<PathBuf>>,
}

/// An archive and the names of the images in it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Archive {
    file: PathBuf,
    names: Vec<String>,
}

impl Archives {
    #[must_use]
    pub fn new(folder: Option<PathBuf>, address: &str) -> Self {
        let address = address.strip_prefix("unix://").unwrap_or(address).to_owned();
        Self { folder, address, given: Mutex::default() }
    }

    /// Gives every archive that has not been given yet to the runtime. Blocks.
    pub fn import_all(&self) {
        for archive in self.list() {
            if let Err(error) = self.import(&archive.file) {
                tracing::warn!(file = %archive.file.display(), %error, "the images of this archive cannot be used");
            }
        }
    }

    /// Gives the archive that has this image to the runtime; whether there is one. Blocks.
    pub fn import_image(&self, image: &str) -> Result<bool, ProcessError> {
        let wanted = full_name(image);
        let found = self.list().into_iter().find(|one| one.names.iter().any(|name| full_name(name) == wanted));
        let Some(archive) = found else { return Ok(false) };
        // The runtime may have lost it since: garbage is collected.
        self.given.lock().remove(&archive.file);
        self.import(&archive.file).map(|()| true)
    }

    fn import(&self, file: &Path) -> Result<(), ProcessError> {
        if self.given.lock().contains(file) {
            return Ok(());
        }
        let path = file.display().to_string();
        process::run("ctr", &["--address", &self.address, "--namespace", "k8s.io", "images", "import", &path], "")?;
        self.given.lock().insert(file.to_owned());
        tracing::info!(file = %path, "images of this archive are in the runtime");
        Ok(())
    }

    fn list(&self) -> Vec<Archive> {
        let Some(folder) = &self.folder else { return Vec::new() };
        let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
        let mut files: Vec<_> = entries.filter(|file| file.extension().is_some_and(|end| end == "tar")).collect();
        files.sort();
        let read = |file: PathBuf| match names(&file) {
            Ok(names) => Some(Archive { file, names }),
            Err(error) => {
                tracing::warn!(file = %file.display(), %error, "this is no archive of images");
                None
            }
        };
        files.into_iter().filter_map(read).collect()
    }
}

/// The name of an image in full: registry, path and tag or digest.
#[must_use]
pub fn full_name(image: &str) -> String {
    let (first, rest) = image.split_once('/').unwrap_or(("", image));
    let is_host = first.contains(['.', ':']) || first == "localhost";
    let path = match (first, is_host) {
        ("", _) => format!("docker.io/library/{rest}"),
        (_, true) => image.to_owned(),
        (_, false) => format!("docker.io/{image}"),
    };
    let last = path.rsplit('/').next().unwrap_or_default();
    if last.contains([':', '@']) { path } else { format!("{path}:latest") }
}

/// The names in an archive: annotations of an OCI index, or tags of a Docker manifest.
fn names(file: &Path) -> io::Result<Vec<String>> {
    let mut names = BTreeSet::new();
    for (path, content) in small_files(file)? {
        let Ok(json) = serde_json::from_slice::<Value>(&content) else { continue };
        match path.as_str() {
            "index.json" => {
                let manifests = json["manifests"].as_array().into_iter().flatten();
                for one in manifests {
                    let annotations = &one["annotations"];
                    let keys = ["io.containerd.image.name", "org.opencontainers.image.ref.name"];
                    let found = keys.into_iter().find_map(|key| annotations[key].as_str());
                    names.extend(found.filter(|name| name.contains('/') || name.contains(':')).map(str::to_owned));
                }
            }
            "manifest.json" => {
                let tags = json
                    .as_array()
                    .into_iter()
                    .flatten()
                    .flat_map(|one| one["RepoTags"].as_array().into_iter().flatten());
                names.extend(tags.filter_map(|tag| tag.as_str()).map(str::to_owned));
            }
            _ => {}
        }
    }
    Ok(names.into_iter().collect())
}

/// The two files at the top of an archive that tell what is in it.
fn small_files(file: &Path) -> io::Result<Vec<(String, Vec<u8>)>> {
    const BLOCK: u64 = 512;
    let mut file = File::open(file)?;
    let (mut found, mut header) = (Vec::new(), [0; BLOCK as usize]);
    loop {
        match file.read_exact(&mut header) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(found),
            read => read?,
        }
        if header.iter().all(|byte| *byte == 0) {
            return Ok(found);
        }
        let text = |from: usize, to: usize| {
            let bytes = header[from..to].split(|byte| *byte == 0).next().unwrap_or_default();
            String::from_utf8_lossy(bytes).trim().to_owned()
        };
        let size =
            u64::from_str_radix(&text(124, 136), 8).map_err(|_| io::Error::other("it has no sizes as tar has them"))?;
        let name = text(0, 100).trim_start_matches("./").to_owned();
        let padded = size.next_multiple_of(BLOCK);
        if matches!(name.as_str(), "index.json" | "manifest.json") && size < 1 << 20 {
            let mut content = vec![0; usize::try_from(padded).map_err(io::Error::other)?];
            file.read_exact(&mut content)?;
            content.truncate(usize::try_from(size).map_err(io::Error::other)?);
            found.push((name, content));
        } else {
            file.seek(SeekFrom::Current(i64::try_from(padded).map_err(io::Error::other)?))?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_completed_as_everywhere() {
        for (short, full) in [
            ("busybox", "docker.io/library/busybox:latest"),
            ("busybox:1", "docker.io/library/busybox:1"),
            ("user/app", "docker.io/user/app:latest"),
            ("localhost/twinstack-pause", "localhost/twinstack-pause:latest"),
            ("registry.example.com:5000/a/b", "registry.example.com:5000/a/b:latest"),
            ("localhost:5000/a@sha256:00", "localhost:5000/a@sha256:00"),
        ] {
            assert_eq!(full_name(short), full);
        }
    }

    #[test]
    fn the_names_in_an_archive_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let index = r#"{"manifests":[{"annotations":{"io.containerd.image.name":"localhost/a:1"}}]}"#;
        let manifest = r#"[{"RepoTags":["localhost/b:2"]}]"#;
        let mut bytes = Vec::new();
        for (name, content) in
            [("blobs/x", "x".repeat(600)), ("index.json", index.to_owned()), ("manifest.json", manifest.to_owned())]
        {
            let mut header = [0; 512];
            header[..name.len()].copy_from_slice(name.as_bytes());
            header[124..135].copy_from_slice(format!("{:011o}", content.len()).as_bytes());
            bytes.extend(header);
            bytes.extend(content.as_bytes());
            bytes.resize(bytes.len().next_multiple_of(512), 0);
        }
        bytes.extend([0; 1024]);
        let file = folder.path().join("a.tar");
        fs::write(&file, &bytes).unwrap();
        assert_eq!(names(&file).unwrap(), ["localhost/a:1", "localhost/b:2"]);
        fs::write(&file, [b'x'; 600]).unwrap();
        assert!(names(&file).is_err());
    }
}
