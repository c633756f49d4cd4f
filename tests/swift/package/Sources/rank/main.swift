// One rank of a job of two: plays its part in the story that its argument names, and exits with 0
// if everything went as expected. RanksTests starts both, with a daemon of their own.

import Foundation
import Mlxcomm

typealias Story = @Sendable (Group) async throws -> Void

let stories: [String: Story] = [
  "operations": everyOperation,
  "buffers": { try await operationsOnBuffers($0) },
  "hostile bool": hostileBool,
  "many at once": manyAtOnce,
  "groups": groups,
  "mismatch": mismatch,
  "deadline": deadline,
  "cancelled task": cancelledTask,
  "cancelled pending": cancelledPending,
  "cancelled before": cancelledBefore,
  "interrupted join": interruptedJoin,
  "invalid arguments": invalidArguments,
  "buffer in use": bufferInUse,
  "rank lost": rankLost,
  "daemon lost": daemonLost,
  "dropped pending": droppedPending,
  "end": end,
  "touched": touched,
]

guard CommandLine.arguments.count == 2, let story = stories[CommandLine.arguments[1]] else {
  fail("expected one of these: \(stories.keys.sorted())")
}
do {
  let world = try await Group.join(strict: true)
  expect(world.size == 2, "size \(world.size)")
  try await story(world)
} catch {
  fail("\(error)")
}
print("rank ended well: \(checks.count) checks")
