//! Keeps the target ConfigMap.
