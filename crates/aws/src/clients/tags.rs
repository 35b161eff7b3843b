//! Tags of load balancers: both APIs have the same two calls, with other names for what has the tags.

use super::{
    actions,
    query::{Form, Query},
    xml::Element,
};
use crate::account::{AwsError, Tags};
use std::collections::BTreeMap;

/// Resources that one call takes.
const RESOURCES: usize = 20;

/// How an API names what has tags: a list of them, and one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tagged {
    pub(super) list: &'static str,
    pub(super) one: &'static str,
}

impl Tagged {
    /// `DescribeTags`; what has gone is left out.
    pub(super) async fn describe(self, query: &Query, ids: &[String]) -> Result<BTreeMap<String, Tags>, AwsError> {
        let mut all = BTreeMap::new();
        for some in ids.chunks(RESOURCES) {
            match self.of(query, some).await {
                // One that has gone makes AWS refuse all.
                Err(error) if error.is_not_found() => {
                    for id in some {
                        match self.of(query, std::slice::from_ref(id)).await {
                            Err(error) if error.is_not_found() => {}
                            outcome => all.extend(outcome?),
                        }
                    }
                }
                outcome => all.extend(outcome?),
            }
        }
        Ok(all)
    }

    async fn of(self, query: &Query, ids: &[String]) -> Result<Vec<(String, Tags)>, AwsError> {
        let mut form = Form::default();
        form.members(self.list, ids);
        let answer = query.ask(actions::DESCRIBE_TAGS, &form).await?;
        let described = answer.items("TagDescriptions");
        Ok(described.filter_map(|one| Some((one.some(self.one)?, pairs(one, "Tags")))).collect())
    }

    /// `AddTags`.
    pub(super) async fn add(self, query: &Query, ids: &[String], tags: &Tags) -> Result<(), AwsError> {
        if tags.is_empty() {
            return Ok(());
        }
        for some in ids.chunks(RESOURCES) {
            let mut form = Form::default();
            form.members(self.list, some);
            form.tags("Tags.member", tags);
            query.ask(actions::ADD_TAGS, &form).await?;
        }
        Ok(())
    }
}

/// `Key` and `Value` of each member of a list.
pub(super) fn pairs(from: &Element, list: &str) -> BTreeMap<String, String> {
    from.items(list).filter_map(|one| Some((one.some("Key")?, one.text(&["Value"]).to_owned()))).collect()
}
