// The commands by which the usual clients reach an export.
import { quoted } from '../lib/shell.ts';

/** The URI of an export below the address of a server, as the daemon lists it. */
export function exportUri(address: string, name: string): string {
  const at = address.indexOf('?');
  const [host, query] = at < 0 ? [address, ''] : [address.slice(0, at), address.slice(at)];
  return `${host}${host.endsWith('/') ? '' : '/'}${encodeURIComponent(name)}${query}`;
}

/** Whether an address is of use on the server alone: a unix socket, or the loopback. */
export function isLocal(uri: string): boolean {
  return /^nbds?\+unix:/.test(uri) || /^nbds?:\/\/(127\.|localhost[:/]|\[::1\])/.test(uri);
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
    { text: 'Check the connection', command: `nbdinfo ${quoted(uri)}` },
    { text: 'Copy the export to a file', command: `nbdcopy --progress ${quoted(uri)} image.raw` },
    ...(readOnly ? [] : [{ text: 'Copy a file to the export', command: `nbdcopy --progress image.raw ${quoted(uri)}` }]),
    { text: 'Save it as an image with QEMU', command: `qemu-img convert -p -O raw ${quoted(uri)} image.raw` },
    ...(kernel === null ? [] : [{ text: 'Attach it as a Linux block device', command: kernel }]),
  ];
}
