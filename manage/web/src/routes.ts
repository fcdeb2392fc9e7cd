// Every path of the console, the file in pages/ that shows it, and where it stands in the navigation.
import type { IconName } from './lib/icons';

export interface Route {
  path: string;
  /** The file in pages/, without its ending. */
  page: string;
  title: string;
  /** In the navigation, if it has an icon. */
  icon?: IconName;
  /** Shown without a session, and without the frame of the others. */
  open?: boolean;
}

export const routes: readonly Route[] = [
  { path: '/', page: 'Overview', title: 'Overview', icon: 'overview' },
  { path: '/disks', page: 'Disks', title: 'Disks', icon: 'disk' },
  { path: '/disks/:disk', page: 'DiskDetail', title: 'Disk' },
  { path: '/pools', page: 'Pools', title: 'Pools', icon: 'pool' },
  { path: '/pools/:pool', page: 'Pool', title: 'Pool' },
  { path: '/spaces', page: 'Spaces', title: 'Spaces', icon: 'space' },
  { path: '/spaces/:pool/:space', page: 'Space', title: 'Space' },
  { path: '/volumes', page: 'Volumes', title: 'Volumes', icon: 'volume' },
  { path: '/volumes/:pool/:volume', page: 'Volume', title: 'Volume' },
  { path: '/exports', page: 'Exports', title: 'Exports', icon: 'export' },
  { path: '/targets', page: 'Targets', title: 'Targets', icon: 'target' },
  { path: '/jobs', page: 'Jobs', title: 'Jobs', icon: 'job' },
  { path: '/events', page: 'Events', title: 'Events', icon: 'event' },
  { path: '/notifications', page: 'Notifications', title: 'Notifications', icon: 'bell' },
  { path: '/access', page: 'Access', title: 'Access', icon: 'access' },
  { path: '/settings', page: 'Settings', title: 'Settings', icon: 'settings' },
  { path: '/login', page: 'Login', title: 'Log in', open: true },
  { path: '/setup', page: 'Setup', title: 'Set up', open: true },
];
