//! Objects → rows of text. Nothing here asks a cluster or reads a clock.

pub(crate) mod candidates;
pub(crate) mod check;
pub(crate) mod difference;
pub(crate) mod lines;
pub(crate) mod live;
pub(crate) mod observed;
pub(crate) mod place;
pub(crate) mod scaling;
pub(crate) mod status;
pub(crate) mod top;
pub(crate) mod tree;
