import { connection } from 'next/server'
import { products } from './catalogue.mjs'
import { whoami } from './whoami.mjs'

export default async function Page() {
  await connection() // rendered for each request, never at build time
  const { worker, workers, pid, host } = whoami()
  const list = products(40, Date.now() >>> 0)
  return (
    <main>
      <h1>Shop</h1>
      <p id="served-by">
        worker {worker} of {workers}, process {pid} on {host}
      </p>
      <table>
        <thead>
          <tr>
            <th>Product</th>
            <th>Price</th>
            <th>Stock</th>
          </tr>
        </thead>
        <tbody>
          {list.map(({ id, name, price, stock }) => (
            <tr key={id}>
              <td>{name}</td>
              <td>{(price / 100).toFixed(2)}</td>
              <td>{stock === 0 ? 'sold out' : stock}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </main>
  )
}
