/** Draws a diagram of Mermaid, whose code is large and loads only on pages that have one. */
import { useData } from 'vitepress';
import { h, onMounted, ref, watch } from 'vue';

let drawn = 0;

export const Diagram = {
  props: { code: String },
  setup({ code }) {
    const { isDark } = useData();
    const picture = ref('');
    const draw = async () => {
      const { default: mermaid } = await import('mermaid');
      // Labels of HTML would get the line height of the page, and be cut.
      mermaid.initialize({ startOnLoad: false, htmlLabels: false, flowchart: { htmlLabels: false }, theme: isDark.value ? 'dark' : 'neutral' });
      picture.value = (await mermaid.render(`diagram-${++drawn}`, decodeURIComponent(code))).svg;
    };
    onMounted(draw);
    watch(isDark, draw);
    return () => h('div', { class: 'diagram', innerHTML: picture.value });
  },
};
