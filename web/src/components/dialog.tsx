import type { ComponentChildren } from 'preact';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { ApiError } from '../api';
import { refresh } from '../live';
import { t, type Key } from '../text';
import { notify } from './notices';
import { ProblemNote } from './problem';

interface Props {
  title: string;
  action: string;
  /** The action destroys or cannot be undone. */
  grave?: boolean;
  /** The action is disabled. */
  disabled?: boolean;
  /** The action. If the API refuses it, the dialog stays open with the error and with what was typed. */
  run: () => Promise<unknown>;
  /** The notice after it. */
  done?: Key;
  onClose: () => void;
  children?: ComponentChildren;
}

/** A dialog that confirms an action. */
export function Dialog({ title, action, grave = false, disabled = false, run, done, onClose, children }: Props) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [busy, work] = useState(false);
  const [error, blame] = useState<ApiError>();
  useLayoutEffect(() => dialog.current?.showModal(), []);
  const submit = async () => {
    work(true);
    try {
      await run();
      dialog.current?.close(); // returns the focus
      if (done) notify(t(done));
    } catch (refused) {
      if (!(refused instanceof ApiError)) throw refused;
      blame(refused);
    } finally {
      work(false);
      refresh();
    }
  };
  return (
    <dialog ref={dialog} onClose={onClose} aria-labelledby="dialog-title">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void submit();
        }}
      >
        <h2 id="dialog-title">{title}</h2>
        {children}
        {error && <ProblemNote error={error} />}
        <div class="actions end">
          <button type="button" onClick={() => dialog.current?.close()}>
            {t('action.back')}
          </button>
          <button class={grave ? 'grave' : 'primary'} disabled={disabled || busy}>
            {action}
          </button>
        </div>
      </form>
    </dialog>
  );
}
