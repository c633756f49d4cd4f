// Run it with mlxcommctl launch (README.md).
import Mlxcomm

let world = try Group()

// Arrays are copied into and out of the daemon's memory.
let sum = try world.allSum([1, 2, 3] as [Float])

// Buffers are already there. Awaiting in an async function does not block a thread.
func mean(of gradients: Buffer<Float>) async throws -> Float {
  try await world.run(.allReduce(gradients, into: gradients, op: .mean), timeout: .seconds(30))
  return gradients[0]
}
let gradients = try Buffer(repeating: Float(world.rank), count: 1 << 20, in: world)
print("rank \(world.rank): sum \(sum), mean \(try await mean(of: gradients))")

// An error has a message and, if known, the failed rank and its node.
do {
  try world.run(.allReduce(gradients, into: Buffer(count: 1, in: world)))
} catch let error as MlxcommError where error.code == .invalidArgument {
  print("rank \(world.rank): \(error.message)")
}
