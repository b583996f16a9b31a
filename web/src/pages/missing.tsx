import { place } from '../router';
import { t } from '../text';

export function MissingPage() {
  return (
    <>
      <h1>{t('missing.title')}</h1>
      <p>
        <a href="/" data-page>
          {t('missing.home')}
        </a>
      </p>
    </>
  );
}

/** Instead of a page whose address has a parameter that it does not know. */
export function WrongAddressPage({ fault }: { fault: string }) {
  return (
    <>
      <h1>{t('wrong.title')}</h1>
      <p class="problem" role="alert">
        {fault}
      </p>
      <p>
        <a href={place.value.path} data-page>
          {t('wrong.without')}
        </a>
      </p>
    </>
  );
}
