// What can be measured of the page that is open. Evaluates to an object.
(() => {
  const article = document.querySelector("article") ?? document.body;
  const scrolls = element => {
    for (let at = element; at && at !== article; at = at.parentElement)
      if (["auto", "scroll"].includes(getComputedStyle(at).overflowX)) return true;
    return false;
  };
  const clipped = [...article.querySelectorAll("*")].filter(element => {
    const box = element.getBoundingClientRect();
    return box.width && (box.right > innerWidth + 1 || box.left < -1) && !element.closest("svg") && !scrolls(element);
  });
  const text = article.cloneNode(true);
  text.querySelectorAll("pre, code, svg, script, style, .doc-signature").forEach(element => element.remove());
  const code = [...article.querySelectorAll(".highlight pre")];
  const python = code.filter(block => block.closest(".language-python, .language-pycon, .language-ipython3"));
  return {
    overflow: document.scrollingElement.scrollWidth - innerWidth,
    clipped: clipped.slice(0, 5).map(element => `${element.tagName}.${element.className}: ${element.textContent.slice(0, 60)}`),
    raw: text.textContent.match(/\*\*[A-Za-z]|\]\([\w./#]|```|^:::|\|---|^#+ /gm) ?? [],
    pictures: [...article.querySelectorAll("img")].map(picture => ({src: picture.src, alt: picture.alt, width: picture.naturalWidth, shown: picture.clientWidth})),
    code: {
      blocks: code.length,
      copied: code.filter(block => block.querySelector(".md-code__button, .md-clipboard")).length,
      python: python.length,
      // Code that has to be scrolled sideways; no block of a closed tab has a width, and those of docstrings (pycon) are as long as the sources.
      cut: python.filter(block => block.closest(".language-python, .language-ipython3")).filter(block => block.querySelector("code").scrollWidth > block.querySelector("code").clientWidth).map(block => block.textContent.slice(0, 60)),
      coloured: python.filter(block => block.querySelector("span[class]:not(:empty)")).length,
    },
    quotations: article.querySelectorAll("blockquote").length,
    links: [...document.querySelectorAll("a[href]")].map(link => link.href),
    ids: [...document.querySelectorAll("[id]")].map(element => element.id),
  };
})()
