//! Reads URIs as `java.net.URI` does.

/// The parts of a URI, as they are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Uri<'a> {
    pub(super) scheme: Option<&'a str>,
    pub(super) authority: Option<&'a str>,
    pub(super) user: Option<&'a str>,
    pub(super) host: Option<&'a str>,
    pub(super) path: Option<&'a str>,
    pub(super) query: Option<&'a str>,
    pub(super) fragment: Option<&'a str>,
}

/// What may stand in user names, besides letters, digits and escapes.
const USER: &str = "-_.!~*'();:&=+$,";
/// What may stand in authorities that name a server.
const SERVER: &str = "-_.!~*'();:&=+$,@[]";
/// What may stand in authorities that name something else.
const REGISTRY: &str = "-_.!~*'()$,;:@&=+";
/// What may stand in paths.
const PATH: &str = "-_.!~*'():@&=+$,;/";
/// What may stand in queries, fragments and what follows a scheme without a slash.
const ANY: &str = "-_.!~*'();/?:@&=+$,[]";

impl<'a> Uri<'a> {
    /// The parts of a text, `None` if it is no URI.
    pub(super) fn parse(text: &'a str) -> Option<Uri<'a>> {
        let mut uri = Uri::default();
        let (text, fragment) = match text.split_once('#') {
            Some((before, fragment)) => (before, Some(fragment)),
            None => (text, None),
        };
        if let Some(fragment) = fragment {
            uri.fragment = Some(checked(fragment, ANY)?);
        }
        match text.find(['/', '?', ':']).map(|at| text.split_at(at)) {
            Some((scheme, rest)) if rest.starts_with(':') => {
                let named = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
                    && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
                if !named {
                    return None;
                }
                uri.scheme = Some(scheme);
                let rest = rest.get(1..)?;
                if rest.starts_with('/') {
                    uri.hierarchy(rest, fragment.is_some())?;
                } else {
                    checked(rest, ANY).filter(|rest| !rest.is_empty())?;
                }
            }
            _ => uri.hierarchy(text, fragment.is_some())?,
        }
        Some(uri)
    }

    /// Authority, path and query.
    fn hierarchy(&mut self, text: &'a str, goes_on: bool) -> Option<()> {
        let mut rest = text;
        if let Some(behind) = text.strip_prefix("//") {
            let (authority, path) = behind.split_at(behind.find(['/', '?']).unwrap_or(behind.len()));
            rest = path;
            if !authority.is_empty() {
                self.authority(authority)?;
            } else if path.is_empty() && !goes_on {
                return None;
            }
        }
        let (path, query) = match rest.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (rest, None),
        };
        self.path = Some(checked(path, PATH)?);
        if let Some(query) = query {
            self.query = Some(checked(query, ANY)?);
        }
        Some(())
    }

    fn authority(&mut self, text: &'a str) -> Option<()> {
        let percent = if text.contains(']') { "%" } else { "" };
        let server_characters = allowed(text, SERVER, percent)?;
        let registry_characters = allowed(text, REGISTRY, "")?;
        if server_characters && let Some((user, host)) = server(text) {
            (self.user, self.host) = (user, Some(host));
        } else if !registry_characters {
            return None;
        }
        self.authority = Some(text);
        Some(())
    }
}

/// The user, if there is one, and the host of an authority that names a server.
fn server(text: &str) -> Option<(Option<&str>, &str)> {
    let (user, rest) = match text.split_once('@') {
        Some((user, rest)) => (Some(checked(user, USER)?), rest),
        None => (None, text),
    };
    let (host, port) = if rest.starts_with('[') {
        let (host, port) = rest.split_at(rest.find(']')? + 1);
        let address = host.get(1..host.len() - 1)?;
        let address = address.split_once('%').map_or(address, |(address, _)| address);
        address.parse::<std::net::Ipv6Addr>().ok()?;
        (host, port)
    } else {
        rest.split_at(rest.find(':').unwrap_or(rest.len()))
    };
    if !host.starts_with('[') && !is_address(host) && !is_host_name(host) {
        return None;
    }
    match port.strip_prefix(':') {
        None if port.is_empty() => {}
        Some(number) if number.is_empty() || (number.bytes().all(|byte| byte.is_ascii_digit()) && number.parse::<i32>().is_ok()) => {}
        _ => return None,
    }
    Some((user, host))
}

fn is_address(host: &str) -> bool {
    let is_byte = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()) && part.parse::<u8>().is_ok();
    host.split('.').count() == 4 && host.split('.').all(is_byte)
}

/// Labels of letters, digits and inner hyphens; the last of several begins with a letter.
fn is_host_name(host: &str) -> bool {
    let name = host.strip_suffix('.').unwrap_or(host);
    let is_label = |label: &str| {
        !label.is_empty()
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let last = name.rsplit('.').next().unwrap_or(name);
    name.split('.').all(is_label) && (!name.contains('.') || last.starts_with(|c: char| c.is_ascii_alphabetic()))
}

/// The text, if it has letters, digits, escapes and `marks` only.
fn checked<'a>(text: &'a str, marks: &str) -> Option<&'a str> {
    allowed(text, marks, "")?.then_some(text)
}

/// Whether a text has letters, digits, escapes and marks only; `None` when an escape has no digits.
fn allowed(text: &str, marks: &str, more: &str) -> Option<bool> {
    let mut rest = text.chars();
    while let Some(character) = rest.next() {
        let fine = match character {
            '%' if more.contains('%') => true,
            '%' => {
                let digits = rest.as_str().get(..2)?;
                if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                    return None;
                }
                true
            }
            character if character.is_ascii() => character.is_ascii_alphanumeric() || marks.contains(character),
            character => !character.is_whitespace() && !character.is_control(),
        };
        if !fine {
            return Some(false);
        }
    }
    Some(true)
}
