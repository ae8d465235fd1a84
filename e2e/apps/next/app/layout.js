export const metadata = { title: 'Shop', description: 'A page rendered on the server' }

export default function Layout({ children }) {
  return (
    <html lang="en">
      <body style={{ fontFamily: 'system-ui, sans-serif', margin: '2rem' }}>{children}</body>
    </html>
  )
}
