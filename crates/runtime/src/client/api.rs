//! The API of one kind: requests and answers are text underneath, and become objects here.
//!
//! Has the methods of `kube::Api` that are used here, under the same names. Each is a line around
//! [`Endpoint`](super::endpoint::Endpoint) and the kind's own [`Decode`]: kube's are compiled anew for every kind, with a
//! list, an event and an answer type each.

use super::{endpoint::Endpoint, list};
use kube::{
    Client, Resource,
    api::{DeleteParams, DynamicObject, ListParams, ObjectList, PartialObjectMeta, Patch, PatchParams, PostParams},
    core::{DynamicResourceScope, NamespaceResourceScope},
};
use objects::{Decode, Encode};
use serde::Serialize;
use std::{fmt, marker::PhantomData};

/// Objects of one kind, in one namespace or all. Clones are cheap.
pub struct Api<K> {
    endpoint: Endpoint,
    kind: PhantomData<fn() -> K>,
}

/// What is known of an object without its spec and status.
pub type Metadata = PartialObjectMeta<DynamicObject>;

impl<K> Clone for Api<K> {
    fn clone(&self) -> Self {
        Self { endpoint: self.endpoint.clone(), kind: PhantomData }
    }
}

impl<K> fmt::Debug for Api<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.endpoint.fmt(f)
    }
}

impl<K: Resource> Api<K> {
    /// All objects of a kind that is known at run time.
    pub fn all_with(client: Client, kind: &K::DynamicType) -> Self {
        Self::at(client, kind, None)
    }

    /// Objects in one namespace, of a kind that is known at run time.
    pub fn namespaced_with(client: Client, namespace: &str, kind: &K::DynamicType) -> Self
    where
        K: Resource<Scope = DynamicResourceScope>,
    {
        Self::at(client, kind, Some(namespace))
    }

    /// All objects.
    pub fn all(client: Client) -> Self
    where
        K: Resource<DynamicType = ()>,
    {
        Self::at(client, &(), None)
    }

    /// Objects in one namespace.
    pub fn namespaced(client: Client, namespace: &str) -> Self
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Self::at(client, &(), Some(namespace))
    }

    fn at(client: Client, kind: &K::DynamicType, namespace: Option<&str>) -> Self {
        let url = K::url_path(kind, namespace);
        Self { endpoint: Endpoint::new(client, url, namespace, K::metadata_api()), kind: PhantomData }
    }
}

impl<K> Api<K> {
    /// Its path on the server.
    #[must_use]
    pub fn resource_url(&self) -> &str {
        self.endpoint.url()
    }

    /// The namespace that it is about, if one.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        self.endpoint.namespace()
    }

    pub(crate) fn into_endpoint(self) -> Endpoint {
        self.endpoint
    }

    /// Without spec and status.
    pub async fn get_metadata_opt(&self, name: &str) -> kube::Result<Option<Metadata>> {
        optional(self.endpoint.get_metadata(name).await.and_then(|text| decode(&text)))
    }

    /// Without spec and status.
    pub async fn list_metadata(&self, params: &ListParams) -> kube::Result<ObjectList<Metadata>> {
        list::decode(&self.endpoint.list_metadata(params).await?)
    }

    /// Deletes all that `which` selects.
    pub async fn delete_collection(&self, params: &DeleteParams, which: &ListParams) -> kube::Result<()> {
        self.endpoint.delete_collection(params, which).await.map(drop)
    }
}

impl<K: Decode> Api<K> {
    /// The object of this name.
    pub async fn get(&self, name: &str) -> kube::Result<K> {
        decode(&self.endpoint.get(name).await?)
    }

    /// The object of this name if there is one.
    pub async fn get_opt(&self, name: &str) -> kube::Result<Option<K>> {
        optional(self.get(name).await)
    }

    /// One page of a list; all of it without a limit.
    pub async fn list(&self, params: &ListParams) -> kube::Result<ObjectList<K>>
    where
        K: Clone,
    {
        list::decode(&self.endpoint.list(params).await?)
    }

    /// Changes an object. The answer is what it has become, as with all that follow.
    pub async fn patch<P: Serialize>(&self, name: &str, params: &PatchParams, patch: &Patch<P>) -> kube::Result<K> {
        decode(&self.endpoint.patch(name, params, patch).await?)
    }

    /// Changes the status of an object.
    pub async fn patch_status<P: Serialize>(
        &self,
        name: &str,
        params: &PatchParams,
        patch: &Patch<P>,
    ) -> kube::Result<K> {
        self.patch_subresource("status", name, params, patch).await
    }

    /// Changes a part that has a path of its own.
    pub async fn patch_subresource<P: Serialize>(
        &self,
        part: &str,
        name: &str,
        params: &PatchParams,
        patch: &Patch<P>,
    ) -> kube::Result<K> {
        decode(&self.endpoint.patch_part(part, name, params, patch).await?)
    }

    /// Deletes an object. The answer is the object while something keeps it, else nothing.
    pub async fn delete(&self, name: &str, params: &DeleteParams) -> kube::Result<Option<K>> {
        let text = self.endpoint.delete(name, params).await?;
        if list::is_status(&text)? { Ok(None) } else { decode(&text).map(Some) }
    }

    /// Makes an object.
    pub async fn create(&self, params: &PostParams, object: &K) -> kube::Result<K>
    where
        K: Encode,
    {
        decode(&self.endpoint.create(params, encode(object)?).await?)
    }

    /// Writes an object, if nobody else has since its version.
    pub async fn replace(&self, name: &str, params: &PostParams, object: &K) -> kube::Result<K>
    where
        K: Encode,
    {
        decode(&self.endpoint.replace(name, params, encode(object)?).await?)
    }

    /// Writes the status of an object, if nobody else has since its version.
    pub async fn replace_status(&self, name: &str, params: &PostParams, object: &K) -> kube::Result<K>
    where
        K: Encode,
    {
        self.replace_subresource("status", name, params, object).await
    }

    /// Writes a part that has a path of its own.
    pub async fn replace_subresource(&self, part: &str, name: &str, params: &PostParams, object: &K) -> kube::Result<K>
    where
        K: Encode,
    {
        decode(&self.endpoint.replace_part(part, name, params, encode(object)?).await?)
    }

    /// Asks for something to be done with an object, such as an eviction. The answer is of a kind of its own.
    pub async fn create_subresource<A: Decode, B: Encode>(
        &self,
        part: &str,
        name: &str,
        params: &PostParams,
        body: &B,
    ) -> kube::Result<A> {
        decode(&self.endpoint.create_part(part, name, params, encode(body)?).await?)
    }
}

fn decode<K: Decode>(text: &str) -> kube::Result<K> {
    K::decode(text).map_err(kube::Error::SerdeError)
}

fn encode<K: Encode>(object: &K) -> kube::Result<Vec<u8>> {
    object.encode().map_err(kube::Error::SerdeError)
}

fn optional<T>(answer: kube::Result<T>) -> kube::Result<Option<T>> {
    match answer {
        Ok(object) => Ok(Some(object)),
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}
