// Moments come in UTC; here they are shown in the reader's zone, or in the one that the page asks for.

const own = Intl.DateTimeFormat().resolvedOptions().timeZone;

function parts(date, zone, precise) {
  const wanted = {
    timeZone: zone, year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit",
    hourCycle: "h23", timeZoneName: "short", ...(precise ? { fractionalSecondDigits: 3 } : {}),
  };
  const found = {};
  for (const { type, value } of new Intl.DateTimeFormat("en-GB", wanted).formatToParts(date)) found[type] = value;
  return found;
}

export function written(date, zone = own, precise = false) {
  const p = parts(date, zone, precise);
  return `${p.year}-${p.month}-${p.day} ${p.hour}:${p.minute}:${p.second}${precise ? "." + p.fractionalSecond : ""} ${p.timeZoneName}`;
}

export function relative(date) {
  const seconds = Math.round((date - Date.now()) / 1000);
  const size = Math.abs(seconds);
  const [unit, step] = size < 90 ? ["s", 1] : size < 5400 ? ["min", 60] : size < 129600 ? ["h", 3600] : ["d", 86400];
  const words = `${Math.round(size / step)} ${unit}`;
  return seconds > 0 ? `in ${words}` : `${words} ago`;
}

function paint(element) {
  const date = new Date(element.dateTime);
  if (isNaN(date)) return;
  const isAgo = element.hasAttribute("data-ago");
  const full = written(date, element.dataset.zone || own, element.hasAttribute("data-precise"));
  const text = isAgo ? relative(date) : full;
  if (element.textContent !== text) element.textContent = text;
  element.title = isAgo ? `${full} (${date.toISOString()})` : date.toISOString();
}

export function paintTimes(root) {
  root.querySelectorAll("time[datetime]").forEach(paint);
}

setInterval(() => document.querySelectorAll("time[data-ago]").forEach(paint), 5000);
