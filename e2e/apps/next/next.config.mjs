/** @type {import('next').NextConfig} */
export default {
  // `standalone` writes the small `server.js` that the image runs; it reads PORT and HOSTNAME.
  output: 'standalone',
  // Else Next.js guesses the root of the project from the lockfiles it finds above.
  outputFileTracingRoot: import.meta.dirname,
  // No images are resized here, so the build needs no native library for it.
  images: { unoptimized: true },
  poweredByHeader: false
}
