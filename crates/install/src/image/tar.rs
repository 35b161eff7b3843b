//! Archives of the format ustar: everything belongs to root and is as old as time, so that the same files give the same bytes.

use super::ImageError;
use std::io::{self, Read, Write};

const BLOCK: usize = 512;

/// An archive that is being written.
pub(super) struct Tar<W> {
    out: W,
}

impl<W: Write> Tar<W> {
    pub(super) fn new(out: W) -> Self {
        Self { out }
    }

    pub(super) fn folder(&mut self, path: &str, mode: u32) -> Result<(), ImageError> {
        let header = header(&format!("{path}/"), mode, 0, b'5', "")?;
        self.put(path, &header)
    }

    /// A symbolic link.
    pub(super) fn link(&mut self, path: &str, target: &str) -> Result<(), ImageError> {
        let header = header(path, 0o777, 0, b'2', target)?;
        self.put(path, &header)
    }

    /// A file of exactly `size` bytes.
    pub(super) fn file(&mut self, path: &str, mode: u32, size: u64, content: impl Read) -> Result<(), ImageError> {
        let header = header(path, mode, size, b'0', "")?;
        self.put(path, &header)?;
        let copied = io::copy(&mut content.take(size), &mut self.out).map_err(|source| at(path, source))?;
        if copied != size {
            return Err(ImageError::Changed(path.to_owned()));
        }
        self.pad(path, size)
    }

    /// A file of exactly `size` bytes that is written while the archive is.
    pub(super) fn nested(
        mut self,
        path: &str,
        size: u64,
        write: impl FnOnce(&mut W) -> Result<(), ImageError>,
    ) -> Result<Self, ImageError> {
        let header = header(path, 0o644, size, b'0', "")?;
        self.put(path, &header)?;
        write(&mut self.out)?;
        self.pad(path, size)?;
        Ok(self)
    }

    /// Two empty blocks are the end.
    pub(super) fn finish(mut self) -> Result<W, ImageError> {
        self.put("the end", &[0; 2 * BLOCK])?;
        self.out.flush().map_err(|source| at("the end", source))?;
        Ok(self.out)
    }

    /// Up to the next whole block.
    fn pad(&mut self, path: &str, size: u64) -> Result<(), ImageError> {
        let rest = (BLOCK - (size % BLOCK as u64) as usize) % BLOCK;
        self.put(path, &[0; BLOCK][..rest])
    }

    fn put(&mut self, path: &str, bytes: &[u8]) -> Result<(), ImageError> {
        self.out.write_all(bytes).map_err(|source| at(path, source))
    }
}

pub(super) fn at(path: &str, source: io::Error) -> ImageError {
    ImageError::File { path: path.to_owned(), source }
}

fn header(path: &str, mode: u32, size: u64, kind: u8, target: &str) -> Result<[u8; BLOCK], ImageError> {
    // Names have 100 bytes, the size eleven digits.
    if path.len() > 100 || target.len() > 100 || size >= 1 << 33 {
        return Err(ImageError::LongPath(path.to_owned()));
    }
    let mut block = [0; BLOCK];
    let mut put = |from: usize, text: &[u8]| block[from..from + text.len()].copy_from_slice(text);
    put(0, path.as_bytes());
    put(100, format!("{mode:07o}\0").as_bytes());
    put(108, b"0000000\0");
    put(116, b"0000000\0");
    put(124, format!("{size:011o}\0").as_bytes());
    put(136, b"00000000000\0");
    put(148, b"        ");
    put(156, &[kind]);
    put(157, target.as_bytes());
    put(257, b"ustar\x0000");
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    Ok(block)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_is_blocks_with_sums() {
        let mut tar = Tar::new(Vec::new());
        tar.folder("etc", 0o755).unwrap();
        tar.file("etc/x", 0o644, 3, &b"abc"[..]).unwrap();
        tar.link("etc/y", "x").unwrap();
        let bytes = tar.finish().unwrap();
        assert_eq!(bytes.len(), 6 * BLOCK);
        assert_eq!(bytes[3 * BLOCK + 156..3 * BLOCK + 159], *b"2x\0");
        assert_eq!((&bytes[..5], &bytes[BLOCK..BLOCK + 6]), (&b"etc/\0"[..], &b"etc/x\0"[..]));
        assert_eq!(&bytes[2 * BLOCK..2 * BLOCK + 4], b"abc\0");
        let header = &bytes[BLOCK..2 * BLOCK];
        let plain =
            header.iter().enumerate().map(|(at, byte)| if (148..156).contains(&at) { 32 } else { u32::from(*byte) });
        assert_eq!(header[148..154], *format!("{:06o}", plain.sum::<u32>()).as_bytes());
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let mut tar = Tar::new(Vec::new());
        assert!(matches!(tar.folder(&"x".repeat(100), 0), Err(ImageError::LongPath(_))));
        assert!(matches!(tar.file("x", 0, 4, &b"abc"[..]), Err(ImageError::Changed(_))));
    }
}
