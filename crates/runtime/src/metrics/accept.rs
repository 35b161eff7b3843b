//! Which text form an `Accept` header asks for (RFC 9110, section 12.5.1). Called by `TextFormat::accepted`.

use super::TextFormat;

/// OpenMetrics only where it is named and not liked less than plain text; `*/*` alone means classic.
pub(super) fn preferred(accept: &str) -> TextFormat {
    let quality = |wanted: &str| {
        accept
            .split(',')
            .filter_map(|range| {
                let mut parts = range.split(';').map(str::trim);
                let media_type = parts.next()?;
                let quality = parts.find_map(|parameter| parameter.strip_prefix("q="));
                let quality = quality.map_or(Some(1.0), |text| text.parse::<f32>().ok())?;
                media_type.eq_ignore_ascii_case(wanted).then_some(quality)
            })
            .fold(0.0, f32::max)
    };
    let openmetrics = quality("application/openmetrics-text");
    if openmetrics > 0.0 && openmetrics >= quality("text/plain") {
        TextFormat::OpenMetrics
    } else {
        TextFormat::Classic
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn openmetrics_is_given_only_to_who_asks_for_it() {
        use TextFormat::{Classic, OpenMetrics};
        let prometheus = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,\
            application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=1.0.0;q=0.3,\
            text/plain;version=0.0.4;q=0.2,*/*;q=0.1";
        for (accept, expected) in [
            ("", Classic),
            ("*/*", Classic),
            ("text/html,application/xhtml+xml,*/*;q=0.8", Classic),
            ("text/plain;version=0.0.4;q=0.5, application/openmetrics-text;q=0.4", Classic),
            ("application/openmetrics-text;q=0", Classic),
            ("application/openmetrics-text;q=loud", Classic),
            ("application/openmetrics-text; version=1.0.0", OpenMetrics),
            ("Application/OpenMetrics-Text, text/plain", OpenMetrics),
            (prometheus, OpenMetrics),
        ] {
            assert_eq!(preferred(accept), expected, "{accept}");
        }
    }

    proptest! {
        #[test]
        fn any_header_gets_an_answer(accept in ".{0,60}") {
            let _ = preferred(&accept);
        }
    }
}
