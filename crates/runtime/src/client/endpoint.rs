//! One resource's place in the API, asked in text: what [`Api`](super::Api) is for every kind, compiled once.

use futures::{AsyncBufRead, future::BoxFuture};
use http::{HeaderValue, Request, header::ACCEPT_ENCODING};
use kube::{
    Client,
    api::{DeleteParams, GetParams, ListParams, Patch, PatchParams, PostParams, WatchParams},
    core::{Request as Paths, request::Error as RequestError},
};
use serde::Serialize;
use std::{fmt, pin::Pin};

/// Where objects of one kind are, in one namespace or all.
#[derive(Clone)]
pub(crate) struct Endpoint {
    client: Client,
    paths: Paths,
    namespace: Option<String>,
    /// Whether only metadata is asked for.
    metadata: bool,
}

/// The text of an answer; boxed, so that callers are small whatever a request takes.
type Answer = BoxFuture<'static, kube::Result<String>>;
type Asked = Result<Request<Vec<u8>>, RequestError>;
/// The lines of a watch.
pub(crate) type Lines = Pin<Box<dyn AsyncBufRead + Send>>;

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("url", &self.paths.url_path).finish_non_exhaustive()
    }
}

impl Endpoint {
    pub(super) fn new(client: Client, url: String, namespace: Option<&str>, metadata: bool) -> Self {
        Self { client, paths: Paths::new(url), namespace: namespace.map(str::to_owned), metadata }
    }

    pub(crate) fn url(&self) -> &str {
        &self.paths.url_path
    }

    pub(super) fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// Asks. Clients that trace requests call them by `verb`.
    fn ask(&self, verb: &'static str, asked: Asked) -> Answer {
        let client = self.client.clone();
        Box::pin(async move {
            let mut request = asked.map_err(kube::Error::BuildRequest)?;
            request.extensions_mut().insert(verb);
            client.request_text(request).await
        })
    }

    pub(super) fn get(&self, name: &str) -> Answer {
        if self.metadata {
            return self.get_metadata(name);
        }
        self.ask("get", self.paths.get(name, &GetParams::default()))
    }

    pub(super) fn get_metadata(&self, name: &str) -> Answer {
        self.ask("get_metadata", self.paths.get_metadata(name, &GetParams::default()))
    }

    pub(crate) fn list(&self, params: &ListParams) -> Answer {
        if self.metadata {
            return self.list_metadata(params);
        }
        self.ask("list", self.paths.list(params))
    }

    pub(super) fn list_metadata(&self, params: &ListParams) -> Answer {
        self.ask("list_metadata", self.paths.list_metadata(params))
    }

    pub(super) fn create(&self, params: &PostParams, body: Vec<u8>) -> Answer {
        self.ask("create", self.paths.create(params, body))
    }

    pub(super) fn replace(&self, name: &str, params: &PostParams, body: Vec<u8>) -> Answer {
        self.ask("replace", self.paths.replace(name, params, body))
    }

    pub(super) fn patch<P: Serialize>(&self, name: &str, params: &PatchParams, patch: &Patch<P>) -> Answer {
        let asked = match self.metadata {
            true => self.paths.patch_metadata(name, params, patch),
            false => self.paths.patch(name, params, patch),
        };
        self.ask("patch", asked)
    }

    pub(super) fn delete(&self, name: &str, params: &DeleteParams) -> Answer {
        self.ask("delete", self.paths.delete(name, params))
    }

    pub(super) fn delete_collection(&self, params: &DeleteParams, which: &ListParams) -> Answer {
        self.ask("delete_collection", self.paths.delete_collection(params, which))
    }

    pub(super) fn create_part(&self, part: &str, name: &str, params: &PostParams, body: Vec<u8>) -> Answer {
        self.ask("create_subresource", self.paths.create_subresource(part, name, params, body))
    }

    pub(super) fn replace_part(&self, part: &str, name: &str, params: &PostParams, body: Vec<u8>) -> Answer {
        self.ask("replace_subresource", self.paths.replace_subresource(part, name, params, body))
    }

    pub(super) fn patch_part<P: Serialize>(
        &self,
        part: &str,
        name: &str,
        params: &PatchParams,
        patch: &Patch<P>,
    ) -> Answer {
        self.ask("patch_subresource", self.paths.patch_subresource(part, name, params, patch))
    }

    /// The changes after `version`, a line for each.
    pub(crate) fn watch(&self, params: &WatchParams, version: &str) -> BoxFuture<'static, kube::Result<Lines>> {
        let asked = match self.metadata {
            true => self.paths.watch_metadata(params, version),
            false => self.paths.watch(params, version),
        };
        let client = self.client.clone();
        Box::pin(async move {
            let mut request = asked.map_err(kube::Error::BuildRequest)?;
            request.extensions_mut().insert("watch");
            // A client that unpacks answers would stop after the first of the many packed events of one.
            request.headers_mut().insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
            let lines = client.request_stream(request).await?;
            Ok(Box::pin(lines) as Lines)
        })
    }
}
