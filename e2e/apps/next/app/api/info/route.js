import { whoami } from '../../whoami.mjs'

export const dynamic = 'force-dynamic'

export function GET() {
  return Response.json(whoami())
}
