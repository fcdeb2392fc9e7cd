// How wide the window is: `phone` below 640 px, `narrow` below 1100 px, else `wide`.
export type Width = 'phone' | 'narrow' | 'wide';

class Viewport {
  #phone = $state(false);
  #narrow = $state(false);
  readonly width = $derived<Width>(this.#phone ? 'phone' : this.#narrow ? 'narrow' : 'wide');

  constructor() {
    const phone = matchMedia('(max-width: 639.9px)');
    const narrow = matchMedia('(max-width: 1099.9px)');
    const read = () => {
      this.#phone = phone.matches;
      this.#narrow = narrow.matches;
    };
    phone.addEventListener('change', read);
    narrow.addEventListener('change', read);
    read();
  }
}

export const viewport = new Viewport();
