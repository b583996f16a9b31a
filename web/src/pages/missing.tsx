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
