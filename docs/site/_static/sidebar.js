// Folds the groups of pages in the sidebar. The group of the current page is open, on the front page the first two groups; a click on a
// caption opens or closes its group.
document.addEventListener("DOMContentLoaded", () => {
    const isInGroup = document.querySelector(".sidebar-tree p.caption + ul .current") !== null;
    for (const [number, caption] of document.querySelectorAll(".sidebar-tree p.caption").entries()) {
        const pages = caption.nextElementSibling;
        const show = (open) => {
            pages.hidden = !open;
            caption.setAttribute("aria-expanded", open);
        };
        caption.setAttribute("role", "button");
        caption.tabIndex = 0;
        caption.addEventListener("click", () => show(pages.hidden));
        caption.addEventListener("keydown", (event) => {
            if (event.key === "Enter" || event.key === " ") {
                event.preventDefault();
                show(pages.hidden);
            }
        });
        show(isInGroup ? pages.querySelector(".current") !== null : number < 2);
    }
});
