//! XML as AWS and moto write it: elements with text or elements in them.

use quick_xml::{
    Reader,
    events::{BytesRef, Event},
};

/// An element. Its attributes are kept as written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Element {
    /// Its name, without a namespace's prefix.
    pub name: String,
    attributes: String,
    pub text: String,
    /// The elements in it.
    pub children: Vec<Self>,
}

impl Element {
    /// An element with text in it.
    pub fn leaf(name: &str, text: &str) -> Self {
        Self { name: name.to_owned(), text: text.to_owned(), ..Self::default() }
    }

    /// An element with elements in it.
    pub fn branch(name: &str, children: Vec<Self>) -> Self {
        Self { name: name.to_owned(), children, ..Self::default() }
    }

    /// Reads a document; `None` when it is none.
    pub fn parse(text: &str) -> Option<Self> {
        let mut reader = Reader::from_str(text);
        let mut open: Vec<Self> = Vec::new();
        loop {
            match reader.read_event().ok()? {
                Event::Start(start) => open.push(Self {
                    name: start.local_name().into_inner().to_owned(),
                    attributes: start.attributes_raw().to_owned(),
                    ..Self::default()
                }),
                Event::Empty(start) => {
                    let element = Self::leaf(start.local_name().into_inner(), "");
                    match open.last_mut() {
                        Some(parent) => parent.children.push(element),
                        None => return Some(element),
                    }
                }
                Event::Text(text) => {
                    if let Some(element) = open.last_mut() {
                        element.text.push_str(&text.xml10_content());
                    }
                }
                Event::GeneralRef(name) => {
                    if let Some(element) = open.last_mut() {
                        element.text.push_str(&meaning(&name)?);
                    }
                }
                Event::End(_) => {
                    let mut element = open.pop()?;
                    if !element.children.is_empty() {
                        element.text.clear();
                    }
                    match open.last_mut() {
                        Some(parent) => parent.children.push(element),
                        None => return Some(element),
                    }
                }
                Event::Eof => return None,
                _ => {}
            }
        }
    }

    /// All elements at a path of names such as `LoadBalancers/member`.
    pub fn all(&self, path: &str) -> Vec<&Self> {
        let mut found = vec![self];
        for name in path.split('/') {
            found = found.into_iter().flat_map(|one| &one.children).filter(|child| child.name == name).collect();
        }
        found
    }

    /// The first of them.
    pub fn one(&self, path: &str) -> Option<&Self> {
        self.all(path).into_iter().next()
    }

    /// The first text at a path; empty when there is none.
    pub fn text(&self, path: &str) -> &str {
        self.one(path).map_or("", |element| element.text.trim())
    }

    /// All texts at a path.
    pub fn texts(&self, path: &str) -> Vec<String> {
        self.all(path).into_iter().map(|element| element.text.trim().to_owned()).collect()
    }

    /// Changes all elements at a path.
    pub fn change(&mut self, path: &str, change: &mut dyn FnMut(&mut Self)) {
        let (name, rest) = path.split_once('/').map_or((path, None), |(name, rest)| (name, Some(rest)));
        for child in self.children.iter_mut().filter(|child| child.name == name) {
            match rest {
                Some(rest) => child.change(rest, change),
                None => change(child),
            }
        }
    }

    /// Gives it a child with this text, in place of those of that name.
    pub fn set(&mut self, name: &str, text: &str) {
        self.remove(name);
        self.children.push(Self::leaf(name, text));
    }

    /// Takes children of that name away.
    pub fn remove(&mut self, name: &str) {
        self.children.retain(|child| child.name != name);
    }

    /// The document as text.
    pub fn write(&self) -> String {
        let mut out = String::from("<?xml version=\"1.0\" encoding=\"utf-8\"?>\n");
        self.write_into(&mut out);
        out
    }

    fn write_into(&self, out: &mut String) {
        out.extend(["<", &self.name, &self.attributes, ">"]);
        if self.children.is_empty() {
            out.push_str(&escaped(&self.text));
        }
        self.children.iter().for_each(|child| child.write_into(out));
        out.extend(["</", &self.name, ">"]);
    }
}

/// Text as it stands in a document.
pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn meaning(reference: &BytesRef<'_>) -> Option<String> {
    match reference.resolve_char_ref().ok()? {
        Some(character) => Some(character.to_string()),
        None => quick_xml::escape::resolve_predefined_entity(&reference.xml10_content()).map(str::to_owned),
    }
}

#[cfg(test)]
mod tests {
    use super::Element;

    #[test]
    fn documents_are_read_and_written() {
        let text =
            "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<R xmlns=\"x\"><l><m>a &amp; b</m><m>c</m></l><e></e></R>";
        let mut read = Element::parse(text).unwrap();
        assert_eq!(read.texts("l/m"), ["a & b", "c"]);
        assert_eq!((read.text("e"), read.text("none/none")), ("", ""));
        assert_eq!(read.write(), text);
        read.change("l/m", &mut |one| one.text.push('!'));
        read.set("e", "1");
        assert_eq!(read.texts("l/m"), ["a & b!", "c!"]);
        assert_eq!(read.text("e"), "1");
        assert_eq!(Element::parse("<html><p>not"), None);
        assert_eq!(Element::parse("Service Unavailable"), None);
    }
}
