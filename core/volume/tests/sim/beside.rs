//! What happens to what only Windows knows of files: attributes, streams and reparse points.

use holdfast_volume::ErrorKind;
use holdfast_volume::service::{
    DosAttributes, FileId, FileService, MOUNT_POINT_TAG, ReparsePoint, SetAttributes, SetMode,
};

use crate::files::Life;
use crate::model::Files;

impl Life<'_> {
    /// What only Windows knows of: attributes, streams and reparse points.
    pub async fn beside(&self, id: FileId, mut next: Files) {
        let (volume, caller, random) = (self.volume, &self.caller, self.random);
        let is_empty = next.names_in(id.number).is_empty();
        let node = next.nodes.get_mut(&id.number).expect("it is there");
        let name = format!("stream {}", random.range(0..4u32)).into_bytes();
        let old = node.streams.get(&name).cloned();
        match (random.range(0..8u32), old) {
            (0, _) => {
                node.dos = DosAttributes::from_bits_truncate(random.next_u64() as u32)
                    & (DosAttributes::SETTABLE - DosAttributes::ARCHIVE);
                let set = SetAttributes { dos: Some(node.dos), ..SetAttributes::default() };
                self.change(next, volume.set(caller, id, &set)).await;
            }
            (1, _) if is_empty => {
                let tag = node.reparse.as_ref().map_or(MOUNT_POINT_TAG, |point| point.tag);
                let mut data = vec![0; random.range(0..16_000usize)];
                random.fill(&mut data);
                let point = ReparsePoint { tag, guid: None, data };
                node.reparse = Some(point.clone());
                self.change(next, volume.set_reparse(caller, id, &point)).await;
            }
            (2, _) => {
                let removing = volume.remove_reparse(caller, id, MOUNT_POINT_TAG, None);
                match node.reparse.take() {
                    Some(_) => _ = self.change(next, removing).await,
                    None => assert_eq!(removing.await.expect_err("there is none").kind, ErrorKind::NoReparse),
                }
            }
            (_, None) => {
                node.streams.insert(name.clone(), Vec::new());
                self.change(next, volume.create_stream(caller, id, &name, SetMode::Create)).await;
            }
            (3, Some(_)) => {
                node.streams.remove(&name);
                self.change(next, volume.remove_stream(caller, id, &name)).await;
            }
            (4, Some(mut bytes)) => {
                bytes.resize(random.range(0..=65_536usize), 0);
                let len = bytes.len() as u64;
                node.streams.insert(name.clone(), bytes);
                self.change(next, volume.set_stream_length(caller, id, &name, len)).await;
            }
            (5, Some(bytes)) => {
                let to = format!("stream {}", random.range(0..4u32)).into_bytes();
                node.streams.remove(&name);
                node.streams.insert(to.clone(), bytes);
                self.change(next, volume.rename_stream(caller, id, &name, &to, true)).await;
            }
            (_, Some(mut bytes)) => {
                let offset = random.range(0..=bytes.len().min(60_000));
                let mut new = vec![0; random.range(0..=(65_536 - offset).min(20_000))];
                random.fill(&mut new);
                bytes.resize(bytes.len().max(offset + new.len()), 0);
                bytes[offset..offset + new.len()].copy_from_slice(&new);
                node.streams.insert(name.clone(), bytes);
                self.change(next, volume.write_stream(caller, id, &name, offset as u64, &new)).await;
            }
        }
    }
}
