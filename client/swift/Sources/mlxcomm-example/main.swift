// Two ranks, or as many as the launcher makes (README.md).
import Mlxcomm

let world = try Group()

// Arrays are copied into the daemon's memory and out of it.
let sum = try world.allSum([1, 2, 3] as [Float])

// Buffers lie there, and need no copy. Awaiting in an async function blocks no thread.
func mean(of gradients: Buffer<Float>) async throws -> Float {
  try await world.run(.allReduce(gradients, into: gradients, op: .mean), timeout: .seconds(30))
  return gradients[0]
}
let gradients = try Buffer(repeating: Float(world.rank), count: 1 << 20, in: world)
print("rank \(world.rank): sum \(sum), mean \(try await mean(of: gradients))")

// An error says what failed, and which rank and node are at fault where one is.
do {
  try world.run(.allReduce(gradients, into: Buffer(count: 1, in: world)))
} catch let error as MlxcommError where error.code == .invalidArgument {
  print("rank \(world.rank): \(error.message)")
}
