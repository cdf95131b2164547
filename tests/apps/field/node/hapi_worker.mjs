// What a worker thread of hapi.mjs does for a request.
export default async (url) => (await fetch(url)).json();
