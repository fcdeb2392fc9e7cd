// The commands by which the usual clients reach an export.
import { quoted } from '../lib/shell.ts';

/** The URI of an export below the address of a server, as the daemon lists it. */
export function exportUri(address: string, name: string): string {
  const at = address.indexOf('?');
  const [host, query] = at < 0 ? [address, ''] : [address.slice(0, at), address.slice(at)];
  return `${host}${host.endsWith('/') ? '' : '/'}${encodeURIComponent(name)}${query}`;
}

function kernelClient(uri: string, name: string, readOnly: boolean): string | null {
  const socket = /^nbds?\+unix:\/\/.*[?&]socket=([^&]+)/.exec(uri)?.[1];
  const host = /^nbds?:\/\/(\[[^\]]+\]|[^/:]+)(?::(\d+))?/.exec(uri);
  const options = `-N ${quoted(name)}${readOnly ? ' -R' : ''}${uri.startsWith('nbds') ? ' -x' : ''}`;
  if (socket !== undefined) return `nbd-client -u ${quoted(decodeURIComponent(socket))} /dev/nbd0 ${options}`;
  return host ? `nbd-client ${host[1]!.replace(/[[\]]/g, '')} ${host[2] ?? '10809'} /dev/nbd0 ${options}` : null;
}

/** What to run on a client, by what it is for. */
export function connectCommands(uri: string, name: string, readOnly: boolean): { text: string; command: string }[] {
  const kernel = kernelClient(uri, name, readOnly);
  return [
    { text: 'See that it answers', command: `nbdinfo ${quoted(uri)}` },
    { text: 'Copy it to a file', command: `nbdcopy --progress ${quoted(uri)} image.raw` },
    ...(readOnly ? [] : [{ text: 'Copy a file to it', command: `nbdcopy --progress image.raw ${quoted(uri)}` }]),
    { text: 'Convert an image with QEMU', command: `qemu-img convert -p -O raw ${quoted(uri)} image.raw` },
    ...(kernel === null ? [] : [{ text: 'As a block device of Linux', command: kernel }]),
  ];
}
