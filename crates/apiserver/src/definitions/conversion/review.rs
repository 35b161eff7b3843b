//! ConversionReview: what a conversion webhook is sent, and what its answer means.

use api::{
    kinds::meta,
    object::Fields,
    path::Path,
    resource::{Conversion, take_over},
};
use serde_json::{Value, json};

/// Versions of ConversionReview that are spoken.
const KNOWN: [&str; 2] = ["v1", "v1beta1"];

/// A review on its way.
pub(super) struct Review {
    version: &'static str,
    uid: String,
    /// The apiVersion that the objects should have.
    wanted: String,
}

impl Review {
    /// The first version that both sides know, or an error.
    pub(super) fn new(conversion: &Conversion, wanted: &str, uid: String) -> Result<Self, String> {
        let spoken = conversion.review_versions.iter().find_map(|one| KNOWN.into_iter().find(|known| known == one));
        let version = spoken.ok_or("no supported conversion review versions")?;
        Ok(Self { version, uid, wanted: wanted.to_owned() })
    }

    /// What is sent.
    pub(super) fn request(&self, objects: &[Value]) -> Value {
        json!({
            "kind": "ConversionReview", "apiVersion": format!("apiextensions.k8s.io/{}", self.version),
            "request": {"uid": self.uid, "desiredAPIVersion": self.wanted, "objects": objects},
        })
    }

    /// The converted objects, or why there are none.
    pub(super) fn answer(&self, sent: Vec<Value>, mut answer: Value) -> Result<Vec<Value>, String> {
        let of = sent.first().map(kind_of).unwrap_or_default();
        let failed = |why: String| format!("conversion webhook for {of} failed: {why}");
        let converted = self.converted(&mut answer).map_err(failed)?;
        if converted.len() != sent.len() {
            return Err(format!(
                "conversion webhook for {of} returned {} objects, expected {}",
                converted.len(),
                sent.len()
            ));
        }
        let several = sent.len() > 1;
        let pairs = sent.into_iter().zip(converted).enumerate();
        pairs.map(|(index, (before, after))| self.checked(several.then_some(index), &before, after)).collect()
    }

    fn converted(&self, answer: &mut Value) -> Result<Vec<Value>, String> {
        let (api_version, kind) = (answer.str_at("apiVersion"), answer.str_at("kind"));
        let strict = self.version == "v1";
        if strict && (api_version, kind) != ("apiextensions.k8s.io/v1", "ConversionReview") {
            let expected = "apiextensions.k8s.io/v1, Kind=ConversionReview";
            return Err(format!("expected webhook response of {expected}, got {api_version}, Kind={kind}"));
        }
        let response = answer.at_mut("response");
        if !response.is_object() {
            return Err("no response provided".to_owned());
        }
        if strict && response.str_at("uid") != self.uid {
            return Err(format!("expected response.uid={:?}, got {:?}", self.uid, response.str_at("uid")));
        }
        match (response.str_at("result.status"), response.str_at("result.message")) {
            ("Success", _) => {}
            (status, "") => return Err(format!("response.result.status was '{status}', not 'Success'")),
            (_, message) => return Err(message.to_owned()),
        }
        Ok(match response.remove("convertedObjects") {
            Some(Value::Array(objects)) => objects,
            _ => Vec::new(),
        })
    }

    /// One converted object: of the right version and kind, the same one, with its metadata but for labels and annotations. It has
    /// an index where there are several.
    fn checked(&self, index: Option<usize>, before: &Value, mut after: Value) -> Result<Value, String> {
        let of = kind_of(before);
        let wrong = |what: String, why: String| format!("conversion webhook for {of} returned invalid {what}: {why}");
        let place = |what: &str, single: &str| match index {
            Some(index) => format!("{what} at index {index}"),
            None => single.to_owned(),
        };
        let invalid = |why: String| wrong(place("converted object", "object at index 0"), why);
        if after.str_at("apiVersion") != self.wanted {
            let received = after.str_at("apiVersion");
            return Err(invalid(format!("invalid groupVersion (expected {}, received {received})", self.wanted)));
        }
        let (expected, received) = (before.str_at("kind"), after.str_at("kind"));
        if expected != received {
            return Err(invalid(format!("invalid kind (expected {expected}, received {received})")));
        }
        for (field, word) in [("name", "name"), ("namespace", "namespace"), ("uid", "UID")] {
            let path = format!("metadata.{field}");
            let (was, is) = (before.str_at(&path), after.str_at(&path));
            if was != is {
                let why = format!("must have the same {word}: {was} != {is}");
                return Err(wrong(place("converted object", "object"), why));
            }
        }
        restore_metadata(before, &mut after).map_err(|why| wrong(place("metadata in object", "metadata"), why))?;
        Ok(after)
    }
}

/// `group/version, Kind=kind`.
pub(super) fn kind_of(object: &Value) -> String {
    format!("{}, Kind={}", object.str_at("apiVersion"), object.str_at("kind"))
}

/// Gives a converted object its metadata back, but for labels and annotations.
fn restore_metadata(before: &Value, after: &mut Value) -> Result<(), String> {
    if !after.at("metadata").is_object() {
        return Err("missing metadata in converted object".to_owned());
    }
    for field in ["labels", "annotations"] {
        let Some(given) = after.at("metadata").get(field).filter(|given| !given.is_null()) else { continue };
        let Value::Object(map) = given else {
            return Err(format!("invalid metadata.{field} in converted object: it is no map"));
        };
        if let Some((key, _)) = map.iter().find(|(_, value)| !value.is_string()) {
            return Err(format!("metadata.{field}[{key}] must be a string in converted object"));
        }
        if before.at("metadata").get(field) != Some(given) {
            let mut errors = Vec::new();
            meta::labels_and_annotations(&mut errors, &Path::new("metadata"), &json!({field: given}));
            if !errors.is_empty() {
                return Err(errors.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "));
            }
        }
    }
    let converted = after.clone();
    after.set("metadata", before.at("metadata").clone());
    for field in ["metadata.labels", "metadata.annotations"] {
        take_over(after, &converted, field);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn review() -> Review {
        let conversion = Conversion {
            client: Value::Null,
            review_versions: vec!["v9".to_owned(), "v1".to_owned()],
            stored_as: "example.com/v1".to_owned(),
        };
        Review::new(&conversion, "example.com/v2", "u".to_owned()).unwrap()
    }

    fn object(version: &str) -> Value {
        json!({"apiVersion": format!("example.com/{version}"), "kind": "Thing",
            "metadata": {"name": "a", "uid": "1", "generation": 3, "labels": {"x": "y"}}})
    }

    fn answered(change: impl Fn(&mut Value)) -> Result<Vec<Value>, String> {
        let mut answer = json!({"kind": "ConversionReview", "apiVersion": "apiextensions.k8s.io/v1",
            "response": {"uid": "u", "result": {"status": "Success"}, "convertedObjects": [object("v2")]}});
        change(&mut answer);
        review().answer(vec![object("v1")], answer)
    }

    #[test]
    fn a_converted_object_keeps_its_metadata_but_for_labels_and_annotations() {
        let converted = answered(|answer| {
            let metadata = answer.at_mut("response")["convertedObjects"][0].at_mut("metadata");
            metadata.set("generation", 9);
            metadata.set("labels", json!({"x": "z"}));
            metadata.set("annotations", json!({"a": "b"}));
        });
        let mut expected = object("v2");
        expected.set("metadata.labels", json!({"x": "z"}));
        expected.set("metadata.annotations", json!({"a": "b"}));
        assert_eq!(converted, Ok(vec![expected]));
        let request = review().request(&[object("v1")]);
        assert_eq!(request["apiVersion"], "apiextensions.k8s.io/v1");
        assert_eq!(
            request["request"],
            json!({"uid": "u", "desiredAPIVersion": "example.com/v2", "objects": [object("v1")]})
        );
    }

    type Change = Box<dyn Fn(&mut Value)>;

    #[test]
    fn what_is_wrong_with_an_answer_is_told_as_upstream_tells_it() {
        let of = "conversion webhook for example.com/v1, Kind=Thing";
        let first = |answer: &mut Value, path: &str, value: Value| {
            answer.at_mut("response")["convertedObjects"][0].set(path, value);
        };
        let rows: Vec<(Change, String)> = vec![
            (Box::new(|answer| drop(answer.remove("response"))), format!("{of} failed: no response provided")),
            (
                Box::new(|answer| answer.set("response.uid", "v")),
                format!("{of} failed: expected response.uid=\"u\", got \"v\""),
            ),
            (
                Box::new(|answer| answer.set("response.result", json!({"status": "Failed", "message": "no way"}))),
                format!("{of} failed: no way"),
            ),
            (
                Box::new(|answer| answer.set("response.result", json!({}))),
                format!("{of} failed: response.result.status was '', not 'Success'"),
            ),
            (
                Box::new(|answer| answer.set("response.convertedObjects", json!([]))),
                format!("{of} returned 0 objects, expected 1"),
            ),
            (
                Box::new(move |answer| first(answer, "apiVersion", "example.com/v3".into())),
                format!(
                    "{of} returned invalid object at index 0: invalid groupVersion (expected example.com/v2, received example.com/v3)"
                ),
            ),
            (
                Box::new(move |answer| first(answer, "metadata.name", "b".into())),
                format!("{of} returned invalid object: must have the same name: a != b"),
            ),
            (
                Box::new(move |answer| first(answer, "metadata.labels", json!({"x": 1}))),
                format!("{of} returned invalid metadata: metadata.labels[x] must be a string in converted object"),
            ),
        ];
        for (change, why) in rows {
            assert_eq!(answered(change), Err(why));
        }
    }
}
