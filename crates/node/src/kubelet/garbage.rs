//! Images that no container uses are removed when the disk fills, those longest out of use first.

use crate::cri::{
    CriError, Runtime,
    proto::{Image, ImageFsInfoRequest, ImageSpec, ListContainersRequest, ListImagesRequest, RemoveImageRequest},
};
use rustix::fs::statvfs;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::sync::{mpsc, oneshot};

/// As upstream's.
const PERIOD: Duration = Duration::from_secs(300);

/// When images are removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageLimits {
    /// Percent of the disk that must be used before any is removed, and down to which they are.
    pub high: u64,
    pub low: u64,
    /// How long an image must have been here (`imageMinimumGCAge`).
    pub min_age: Duration,
    /// The image of sandboxes, which no container shows to be in use.
    pub sandbox: String,
}

/// When an image was first seen, and last seen in use.
#[derive(Clone, Copy, Debug)]
struct Seen {
    first: Instant,
    used: Instant,
}

/// What an image needs to be judged by.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Candidate {
    id: String,
    size: u64,
    /// Seconds since it was last in use.
    idle: u64,
}

/// Asks for all unused images to be removed, whatever the disk, and says how many went.
pub type Wanted = mpsc::Sender<oneshot::Sender<usize>>;

/// Looks now and then, and when somebody needs room. Never ends.
pub(super) async fn collect(
    runtime: Runtime,
    limits: ImageLimits,
    wanted: Arc<tokio::sync::Mutex<mpsc::Receiver<oneshot::Sender<usize>>>>,
) {
    let (mut seen, mut wanted) = (BTreeMap::new(), wanted.lock().await);
    let all = ImageLimits { high: 0, low: 0, ..limits.clone() };
    // When images were first seen here is known from the start.
    let mut asked: Option<oneshot::Sender<usize>> = None;
    loop {
        match look(&runtime, if asked.is_some() { &all } else { &limits }, &mut seen).await {
            Ok(gone) => {
                // Whoever asked may have gone on.
                let _ = asked.take().map(|asked| asked.send(gone));
            }
            Err(error) => tracing::warn!(%error, "images cannot be looked after; tried again"),
        }
        asked = tokio::time::timeout(PERIOD, wanted.recv()).await.ok().flatten();
    }
}

/// How many were removed.
async fn look(runtime: &Runtime, limits: &ImageLimits, seen: &mut BTreeMap<String, Seen>) -> Result<usize, CriError> {
    let images = runtime.call(ListImagesRequest::default()).await?.images;
    let containers = runtime.call(ListContainersRequest::default()).await?.containers;
    let used: BTreeSet<String> = containers
        .into_iter()
        .flat_map(|one| [one.image_ref, one.image_id, one.image.map(|image| image.image).unwrap_or_default()])
        .collect();
    let now = Instant::now();
    seen.retain(|id, _| images.iter().any(|image| image.id == *id));
    let mut idle = Vec::new();
    for image in images {
        let known = seen.entry(image.id.clone()).or_insert(Seen { first: now, used: now });
        if is_used(&image, &used, &limits.sandbox) {
            known.used = now;
        } else if now.duration_since(known.first) >= limits.min_age {
            idle.push(Candidate { id: image.id, size: image.size, idle: now.duration_since(known.used).as_secs() });
        }
    }
    let Some((size, free)) = disk(runtime).await? else { return Ok(0) };
    let excess = excess(limits, size, free, idle);
    let count = excess.len();
    for image in excess {
        tracing::info!(image = image.id, bytes = image.size, "an image that nobody uses is removed: the disk fills");
        let spec = ImageSpec { image: image.id, ..ImageSpec::default() };
        runtime.end(RemoveImageRequest { image: Some(spec) }, crate::cri::PATIENCE).await?;
    }
    Ok(count)
}

fn is_used(image: &Image, used: &BTreeSet<String>, sandbox: &str) -> bool {
    let names = image.repo_tags.iter().chain(&image.repo_digests).chain([&image.id]);
    image.pinned || names.into_iter().any(|name| used.contains(name) || name == sandbox)
}

/// Size and free bytes of the disk with the images.
async fn disk(runtime: &Runtime) -> Result<Option<(u64, u64)>, CriError> {
    let answer = runtime.call(ImageFsInfoRequest::default()).await?;
    let place = answer.image_filesystems.into_iter().find_map(|one| one.fs_id).map(|id| PathBuf::from(id.mountpoint));
    let info = place.and_then(|place| statvfs(&place).ok());
    Ok(info.map(|info| (info.f_blocks * info.f_frsize, info.f_bavail * info.f_frsize)))
}

/// What to remove so that the disk is used no more than it should be. Pure.
fn excess(limits: &ImageLimits, size: u64, free: u64, mut idle: Vec<Candidate>) -> Vec<Candidate> {
    let used = |percent: u64| size / 100 * percent;
    if size == 0 || size - free.min(size) < used(limits.high) {
        return Vec::new();
    }
    let mut surplus = (size - free).saturating_sub(used(limits.low));
    idle.sort_by_key(|image| std::cmp::Reverse(image.idle));
    idle.into_iter()
        .take_while(|image| {
            let more = surplus > 0;
            surplus = surplus.saturating_sub(image.size);
            more
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_go_only_when_the_disk_fills_and_the_longest_idle_first() {
        let limits = ImageLimits { high: 85, low: 80, min_age: Duration::ZERO, sandbox: "pause".to_owned() };
        let image = |id: &str, size, idle| Candidate { id: id.to_owned(), size, idle };
        let all = || vec![image("new", 100, 1), image("old", 30, 9), image("middle", 30, 5)];
        let gone = |free| excess(&limits, 1000, free, all()).into_iter().map(|one| one.id).collect::<Vec<_>>();
        assert_eq!(gone(200), Vec::<String>::new());
        assert_eq!(gone(150), ["old", "middle"]);
        assert_eq!(gone(50), ["old", "middle", "new"]);
    }

    #[test]
    fn the_sandboxes_image_and_those_of_containers_stay() {
        let image = Image { id: "sha256:1".to_owned(), repo_tags: vec!["pause".to_owned()], ..Image::default() };
        assert!(is_used(&image, &BTreeSet::new(), "pause"));
        assert!(!is_used(&image, &BTreeSet::new(), "other"));
        assert!(is_used(&image, &BTreeSet::from(["sha256:1".to_owned()]), "other"));
    }
}
