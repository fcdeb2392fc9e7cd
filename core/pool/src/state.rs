//! What an owner knows of its pool at a moment.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::config::Config;
use crate::disk::PoolDisk;
use crate::judgement::Judgement;

pub(crate) struct State {
    pub config: Config,
    pub disks: BTreeMap<u16, Arc<PoolDisk>>,
    pub judgements: BTreeMap<u16, Judgement>,
}
