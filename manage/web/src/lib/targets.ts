// iSCSI targets in words: who may log in, what a LUN is, and what is wrong with what was entered.
import type { Lun, Target, TargetPortal } from './api/types';
import type { Word } from './words';

export const BLOCKS: readonly { value: Lun['blocks']; text: string }[] = [
  { value: '512e', text: '512 bytes, best in units of 4096 (512e)' },
  { value: '512', text: '512 bytes' },
  { value: '4096', text: '4096 bytes (4K native)' },
];

export const PORTAL_STATES: readonly { value: TargetPortal['state']; text: string }[] = [
  { value: 'active', text: 'Active: used first' },
  { value: 'non-optimized', text: 'Non-optimized: used where no active one is left' },
  { value: 'standby', text: 'Standby: no I/O' },
  { value: 'unavailable', text: 'Unavailable: answers next to nothing' },
];

export const SYSTEMS = { linux: 'Linux', windows: 'Windows', esxi: 'VMware ESXi' } as const;

/** How a target stands for initiators. */
export function targetWord(target: Pick<Target, 'served' | 'health' | 'open' | 'initiators'>): Word {
  if (target.health === 'unhealthy') return { text: 'Unhealthy', tone: 'error' };
  if (!target.served) return { text: 'Not served', tone: 'error' };
  if (target.health === 'warning') return { text: 'Warning', tone: 'warning' };
  if (!target.open && target.initiators.length === 0) return { text: 'Nobody may log in', tone: 'warning' };
  return { text: 'Served', tone: 'ok' };
}

/** The LUNs that are this space. */
export function lunsOf(targets: readonly Target[], space: string) {
  return targets.flatMap((target) =>
    target.luns
      .filter((lun) => lun.backing === space)
      .map((lun) => ({ target: target.name, lun: lun.lun, name: lun.name, readOnly: lun.read_only })),
  );
}

/** Who may log in. */
export function whoWords(target: Pick<Target, 'open' | 'initiators'>): string {
  if (target.open) return 'Any initiator';
  const [first, ...others] = target.initiators;
  if (!first) return 'Nobody';
  return others.length === 0 ? first.iqn : `${target.initiators.length} initiators`;
}

/** What is wrong with the iSCSI name of an initiator or a target (RFC 7143, 4.2.7). */
export function iqnProblem(name: string): string | undefined {
  if (name === '') return 'Enter an iSCSI name, for example iqn.1991-05.com.microsoft:host.';
  if (name.length > 223) return 'Use at most 223 characters.';
  if (/^iqn\.\d{4}-(0[1-9]|1[0-2])\.[a-z0-9][a-z0-9.-]*(:[^\s/]+)?$/i.test(name)) return undefined;
  if (/^eui\.[0-9a-f]{16}$/i.test(name) || /^naa\.([0-9a-f]{16}|[0-9a-f]{32})$/i.test(name)) return undefined;
  return 'Write it as iqn.YEAR-MONTH.DOMAIN:NAME, eui.16 digits, or naa.16 or 32 digits.';
}

/** What is wrong with a CHAP secret. */
export function secretProblem(secret: string): string | undefined {
  const bytes = new TextEncoder().encode(secret).length;
  return bytes < 12 || bytes > 255 ? 'Use 12 to 255 characters; Windows takes 12 to 16.' : undefined;
}

/** What is wrong with an address of a portal; the port may be left out. */
export function addressProblem(address: string): string | undefined {
  const port = /^(?:\[[^\]]+\]|[^:[\]\s]+)(?::(\d{1,5}))?$/.exec(address.trim());
  if (!port) return 'Write it as HOST:PORT, for example 192.0.2.1:3260 or [2001:db8::1]:3260.';
  return port[1] !== undefined && (Number(port[1]) < 1 || Number(port[1]) > 65535) ? 'Use a port from 1 to 65535.' : undefined;
}

/** What is wrong with the number of a LUN; empty is the lowest that is free. */
export function lunProblem(text: string): string | undefined {
  return text === '' || (/^\d{1,3}$/.test(text) && Number(text) <= 255) ? undefined : 'Use a number from 0 to 255.';
}

/** What is wrong with the percentage at which initiators are warned; empty is what the alerts of the pool say. */
export function alertProblem(text: string): string | undefined {
  return text === '' || (/^\d{1,3}$/.test(text) && Number(text) <= 100)
    ? undefined
    : 'Use a number from 1 to 100, or 0 for never.';
}

/** When initiators are warned that a LUN runs out of room. */
export function alertWords(alert: Lun['alert']): string {
  if (!alert) return '–';
  return alert.percent === 0 ? 'never' : `at ${alert.percent} %${alert.reached ? ', now' : ''}`;
}

/** What is wrong with the path of a file of a volume. */
export function fileProblem(path: string): string | undefined {
  if (!path.startsWith('/') || path.endsWith('/'))
    return 'Write the path of a file from the root of the volume, for example /vm/disk.raw.';
  return path.split('/').some((part, at) => at > 0 && (part === '' || part === '.' || part === '..'))
    ? 'Leave out “//”, “.” and “..”.'
    : undefined;
}

/** The addresses that stand in a field, one in a line or with commas. */
export function addressesOf(text: string): string[] {
  return text
    .split(/[\s,]+/)
    .map((one) => one.trim())
    .filter((one) => one !== '');
}
