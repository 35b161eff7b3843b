//! Records as text, one line of a zone file (RFC 1035, section 5): what templates render and what people read.

use super::{
    Name, Record,
    code::{class, rtype},
};
use std::{
    fmt::{self, Write},
    net::{Ipv4Addr, Ipv6Addr},
    str::FromStr,
};

/// TTL of a record that does not say one.
const DEFAULT_TTL: u32 = 3600;

/// No more can be written into a record, whose length is a 16-bit number.
const LONGEST_DATA: usize = 65_535;

/// Text that is no record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TextError(String);

fn refuse<T>(problem: impl Into<String>) -> Result<T, TextError> {
    Err(TextError(problem.into()))
}

impl FromStr for Record {
    type Err = TextError;

    /// `owner [ttl] [class] type data`. Names without a final dot are taken as whole.
    fn from_str(text: &str) -> Result<Self, TextError> {
        let words = words(text)?;
        let mut words = words.iter();
        let Some(owner) = words.next() else { return refuse("there is no record in an empty text") };
        let name = name(owner)?;
        let (mut ttl, mut class) = (None, None);
        let rtype = loop {
            let Some(Word { text }) = words.next() else {
                return refuse(format!("{:?} is not followed by a TTL, a class or a type", owner.text));
            };
            let upper = text.to_ascii_uppercase();
            if ttl.is_none() && text.starts_with(|c: char| c.is_ascii_digit()) {
                ttl = Some(lifetime(text)?);
            } else if let Some(number) = class_number(&upper).filter(|_| class.is_none()) {
                class = Some(number);
            } else if let Some(number) = type_number(&upper) {
                break number;
            } else {
                return refuse(format!("{text:?} is not a TTL, a class or a type"));
            }
        };
        let rest: Vec<&Word> = words.collect();
        let data = data(rtype, &rest)?;
        if data.len() > LONGEST_DATA {
            return refuse(format!("the data is longer than {LONGEST_DATA} bytes"));
        }
        Ok(Self { name, rtype, class: class.unwrap_or(class::IN), ttl: ttl.unwrap_or(DEFAULT_TTL), data })
    }
}

fn class_number(text: &str) -> Option<u16> {
    class::number(text).or_else(|| text.strip_prefix("CLASS")?.parse().ok())
}

fn type_number(text: &str) -> Option<u16> {
    rtype::number(text).or_else(|| text.strip_prefix("TYPE")?.parse().ok())
}

struct Word {
    text: String,
}

/// Words between spaces; quotes keep spaces, parentheses around several words mean nothing in one line, `;` ends it.
fn words(text: &str) -> Result<Vec<Word>, TextError> {
    let mut words = Vec::new();
    let mut letters = text.chars().peekable();
    while let Some(&letter) = letters.peek() {
        if letter.is_whitespace() || letter == '(' || letter == ')' {
            letters.next();
        } else if letter == ';' {
            break;
        } else if letter == '"' {
            letters.next();
            let mut word = String::new();
            loop {
                match letters.next() {
                    Some('"') => break,
                    Some('\\') => {
                        word.push('\\');
                        word.extend(letters.next());
                    }
                    Some(other) => word.push(other),
                    None => return refuse("a quoted text does not end"),
                }
            }
            words.push(Word { text: word });
        } else {
            let mut word = String::new();
            while let Some(&letter) = letters.peek() {
                if letter.is_whitespace() || matches!(letter, '(' | ')' | ';' | '"') {
                    break;
                }
                letters.next();
                word.push(letter);
                if letter == '\\' {
                    word.extend(letters.next());
                }
            }
            words.push(Word { text: word });
        }
    }
    Ok(words)
}

fn name(word: &Word) -> Result<Name, TextError> {
    if word.text == "@" {
        return Ok(Name::ROOT);
    }
    Name::parse(&word.text).or_else(|error| refuse(format!("name {:?} {error}", word.text)))
}

/// Seconds, or BIND's `1h30m`.
fn lifetime(text: &str) -> Result<u32, TextError> {
    if let Ok(seconds) = text.parse() {
        return Ok(seconds);
    }
    let (mut total, mut number) = (0u32, None::<u32>);
    for letter in text.chars() {
        let fits = match (letter.to_digit(10), letter.to_ascii_lowercase()) {
            (Some(digit), _) => {
                number = number.unwrap_or(0).checked_mul(10).and_then(|tens| tens.checked_add(digit));
                number
            }
            (None, unit) => {
                let seconds = match unit {
                    's' => 1,
                    'm' => 60,
                    'h' => 3600,
                    'd' => 86_400,
                    'w' => 604_800,
                    _ => return refuse(format!("{text:?} is not a TTL")),
                };
                let part = number.take().and_then(|count| count.checked_mul(seconds));
                part.and_then(|part| total.checked_add(part)).inspect(|sum| total = *sum)
            }
        };
        if fits.is_none() {
            return refuse(format!("{text:?} is not a TTL"));
        }
    }
    total.checked_add(number.unwrap_or(0)).ok_or_else(|| TextError(format!("{text:?} is not a TTL")))
}

fn number<T: FromStr>(word: &Word, what: &str) -> Result<T, TextError> {
    word.text.parse().or_else(|_| refuse(format!("{:?} is no {what}", word.text)))
}

fn data(rtype: u16, words: &[&Word]) -> Result<Vec<u8>, TextError> {
    if let [mark, length, hex @ ..] = words
        && mark.text == "\\#"
    {
        return generic(length, hex);
    }
    let mut data = Vec::new();
    match (rtype, words) {
        (rtype::A, [address]) => data.extend(number::<Ipv4Addr>(address, "IPv4 address")?.octets()),
        (rtype::AAAA, [address]) => data.extend(number::<Ipv6Addr>(address, "IPv6 address")?.octets()),
        (rtype::CNAME | rtype::NS | rtype::PTR | rtype::DNAME | rtype::MB | rtype::MG | rtype::MR, [target]) => {
            data.extend_from_slice(name(target)?.wire());
        }
        (rtype::MX | rtype::AFSDB | rtype::KX | rtype::RT, [preference, target]) => {
            data.extend(number::<u16>(preference, "preference")?.to_be_bytes());
            data.extend_from_slice(name(target)?.wire());
        }
        (rtype::RP, [mailbox, text]) => {
            data.extend_from_slice(name(mailbox)?.wire());
            data.extend_from_slice(name(text)?.wire());
        }
        (rtype::SRV, [priority, weight, port, target]) => {
            for (word, what) in [(priority, "priority"), (weight, "weight"), (port, "port")] {
                data.extend(number::<u16>(word, what)?.to_be_bytes());
            }
            data.extend_from_slice(name(target)?.wire());
        }
        (rtype::SOA, [server, mailbox, serial, times @ ..]) if times.len() == 4 => {
            data.extend_from_slice(name(server)?.wire());
            data.extend_from_slice(name(mailbox)?.wire());
            data.extend(number::<u32>(serial, "serial number")?.to_be_bytes());
            for time in times {
                data.extend(lifetime(&time.text)?.to_be_bytes());
            }
        }
        (rtype::TXT | rtype::SPF, [_, ..]) => {
            for word in words {
                string(&mut data, word)?;
            }
        }
        (rtype::HINFO, [cpu, system]) => {
            string(&mut data, cpu)?;
            string(&mut data, system)?;
        }
        (rtype::CAA, [flags, tag, value]) => {
            data.push(number(flags, "number up to 255")?);
            string(&mut data, tag)?;
            data.extend(unescaped(&value.text)?);
        }
        _ => {
            let known = rtype::text(rtype);
            return refuse(format!("the data of {known} is not understood; it may be written as \\# LENGTH HEX"));
        }
    }
    Ok(data)
}

/// RFC 3597.
fn generic(length: &Word, hex: &[&Word]) -> Result<Vec<u8>, TextError> {
    let digits: Vec<u32> =
        hex.iter().flat_map(|word| word.text.chars()).map_while(|digit| digit.to_digit(16)).collect();
    let bytes: Vec<u8> = digits.chunks_exact(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect();
    let letters: usize = hex.iter().map(|word| word.text.chars().count()).sum();
    if bytes.len() != number::<usize>(length, "length")? || letters != 2 * bytes.len() {
        return refuse("the bytes after \\# are not as many as its length says");
    }
    Ok(bytes)
}

fn string(data: &mut Vec<u8>, word: &Word) -> Result<(), TextError> {
    let bytes = unescaped(&word.text)?;
    // A long text becomes several strings, as other readers have it.
    let chunks: Vec<&[u8]> = if bytes.is_empty() { vec![&[]] } else { bytes.chunks(255).collect() };
    for chunk in chunks {
        data.push(chunk.len() as u8);
        data.extend_from_slice(chunk);
    }
    Ok(())
}

fn unescaped(text: &str) -> Result<Vec<u8>, TextError> {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        let Some(first) = rest.next() else { return refuse(format!("{text:?} ends in a backslash")) };
        if !first.is_ascii_digit() {
            bytes.push(first);
            continue;
        }
        let mut value = u32::from(first - b'0');
        for digit in [rest.next(), rest.next()] {
            let Some(digit) = digit.filter(u8::is_ascii_digit) else {
                return refuse(format!("{text:?} has a backslash without three digits"));
            };
            value = value * 10 + u32::from(digit - b'0');
        }
        bytes.push(u8::try_from(value).or_else(|_| refuse(format!("{text:?}: \\{value} is above 255")))?);
    }
    Ok(bytes)
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, rtype, class, ttl, .. } = self;
        write!(f, "{name}\t{ttl}\t{}\t{}\t{}", class::text(*class), rtype::text(*rtype), self.data_text())
    }
}

impl Record {
    /// The data alone, as text.
    #[must_use]
    pub fn data_text(&self) -> String {
        self.known_text().unwrap_or_else(|| {
            let hex: String = self.data.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("\\# {} {hex}", self.data.len()).trim_end().to_owned()
        })
    }

    fn known_text(&self) -> Option<String> {
        let data = self.data.as_slice();
        let names = |data: &[u8]| Some(super::record::split_name(data)?.0.to_string());
        Some(match self.rtype {
            rtype::A => Ipv4Addr::from(<[u8; 4]>::try_from(data).ok()?).to_string(),
            rtype::AAAA => Ipv6Addr::from(<[u8; 16]>::try_from(data).ok()?).to_string(),
            rtype::CNAME | rtype::NS | rtype::PTR | rtype::DNAME => names(data)?,
            rtype::MX => format!("{} {}", two(data)?, names(&data[2..])?),
            rtype::SRV => {
                format!("{} {} {} {}", two(data)?, two(&data[2..])?, two(data.get(4..)?)?, names(&data[6..])?)
            }
            rtype::SOA => {
                let (server, rest) = super::record::split_name(data)?;
                let (mailbox, rest) = super::record::split_name(rest)?;
                let numbers = rest.chunks_exact(4).map(|n| u32::from_be_bytes([n[0], n[1], n[2], n[3]]).to_string());
                format!("{server} {mailbox} {}", numbers.collect::<Vec<_>>().join(" "))
            }
            rtype::TXT | rtype::SPF | rtype::HINFO => strings(data)?,
            _ => return None,
        })
    }
}

fn two(data: &[u8]) -> Option<u16> {
    data.first_chunk().map(|bytes| u16::from_be_bytes(*bytes))
}

/// At least one: no string at all cannot be told from a mistake.
fn strings(mut data: &[u8]) -> Option<String> {
    if data.is_empty() {
        return None;
    }
    let mut text = String::new();
    while let Some((length, rest)) = data.split_first() {
        let (string, after) = rest.split_at_checked(usize::from(*length))?;
        data = after;
        text.push_str(if text.is_empty() { "\"" } else { " \"" });
        for byte in string {
            match byte {
                b'"' | b'\\' => {
                    text.push('\\');
                    text.push(char::from(*byte));
                }
                b' '..=b'~' => text.push(char::from(*byte)),
                other => write!(text, "\\{other:03}").ok()?,
            }
        }
        text.push('"');
    }
    Some(text)
}
