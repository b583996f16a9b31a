import type { ComponentChildren } from 'preact';
import { useLayoutEffect, useRef } from 'preact/hooks';
import { t } from '../text';

interface Props {
  title: string;
  action: string;
  /** The action destroys or cannot be undone. */
  grave?: boolean;
  /** The action is disabled. */
  disabled?: boolean;
  onSubmit: () => void;
  onClose: () => void;
  children?: ComponentChildren;
}

/** A dialog that confirms an action. */
export function Dialog({ title, action, grave = false, disabled = false, onSubmit, onClose, children }: Props) {
  const dialog = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog ref={dialog} onClose={onClose} aria-labelledby="dialog-title">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          dialog.current?.close(); // returns the focus
          onSubmit();
        }}
      >
        <h2 id="dialog-title">{title}</h2>
        {children}
        <div class="actions end">
          <button type="button" onClick={() => dialog.current?.close()}>
            {t('action.back')}
          </button>
          <button class={grave ? 'grave' : 'primary'} disabled={disabled}>
            {action}
          </button>
        </div>
      </form>
    </dialog>
  );
}
