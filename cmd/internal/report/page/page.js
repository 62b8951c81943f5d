"use strict";
(function () {
  var table = document.querySelector("table");
  var rows = Array.prototype.slice.call(table.tBodies);
  var input = document.querySelector(".filter input");
  var empty = document.querySelector(".empty");
  var pressed = {};
  var text = rows.map(function (r) { return r.rows[0].textContent.toLowerCase(); });
  function show() {
    var words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    var some = Object.keys(pressed).length > 0;
    var shown = 0;
    rows.forEach(function (r, i) {
      var fits = (!some || pressed[r.dataset.status]) && words.every(function (w) { return text[i].indexOf(w) >= 0; });
      r.hidden = !fits;
      if (fits) shown++;
    });
    empty.hidden = shown > 0;
  }
  document.querySelector(".filter").hidden = false;
  input.addEventListener("input", show);
  document.querySelectorAll(".legend button").forEach(function (b) {
    b.disabled = false;
    b.addEventListener("click", function () {
      var on = !pressed[b.dataset.status];
      if (on) pressed[b.dataset.status] = true; else delete pressed[b.dataset.status];
      b.setAttribute("aria-pressed", String(on));
      show();
    });
  });
  function value(r, column) {
    var cell = r.rows[0].cells[column];
    var time = cell.querySelector("time");
    return time ? time.dateTime : cell.textContent.trim().toLowerCase();
  }
  table.querySelectorAll("thead th[data-key]").forEach(function (th, column) {
    var button = document.createElement("button");
    button.type = "button";
    button.textContent = th.textContent;
    th.textContent = "";
    th.appendChild(button);
    button.addEventListener("click", function () {
      var down = th.getAttribute("aria-sort") === "ascending";
      table.querySelectorAll("thead th").forEach(function (o) { o.removeAttribute("aria-sort"); });
      th.setAttribute("aria-sort", down ? "descending" : "ascending");
      var keys = new Map(rows.map(function (r) { return [r, value(r, column)]; }));
      rows.slice().sort(function (a, b) {
        var x = keys.get(a), y = keys.get(b);
        return (x < y ? -1 : x > y ? 1 : 0) * (down ? -1 : 1);
      }).forEach(function (r) { table.appendChild(r); });
    });
  });
})();
