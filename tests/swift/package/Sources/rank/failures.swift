// Stories with failures, on both ranks.

import Foundation
import Mlxcomm

@Sendable func mismatch(_ world: Group) async throws {
  await expectError(.mismatch) { _ = try await world.allSum([Float](repeating: 1, count: 3 + world.rank)) }
  // A group that has failed stays failed, and throws the same error.
  await expectError(.mismatch) { try await world.barrier() }
  await expectError(.mismatch) { try blocking { try world.barrier() } }
  await expectError(.mismatch) { try world.check() }
  expectEqual(world.failure?.code, .mismatch, "failure")
  let rest = try await world.shrink()
  expectEqual(rest.size, 2, "all are left")
  expectEqual(try await rest.allSum([1]), [2], "works")
  expectEqual(try await Group.join().allSum([1]), [2], "what is left of the world is the world")
}

@Sendable func deadline(_ world: Group) async throws {
  let message = world.rank == 0 ? "rank 1" : ""
  await expectError(.deadlineExceeded, message) {
    if world.rank == 0 {
      _ = try await world.allSum([1], timeout: .milliseconds(200))
    } else {
      _ = try await world.recv([Int].self, count: 1, from: 0)  // It waits elsewhere.
    }
  }
  await expectError(.invalidArgument, "timeout") { try await world.barrier(timeout: .zero) }
  await expectError(.invalidArgument, "timeout") { try world.setTimeout(.seconds(-1)) }
  let rest = try await world.shrink(timeout: .seconds(60))
  try rest.setTimeout(.milliseconds(200))  // The group's own.
  await expectError(.deadlineExceeded) {
    if rest.rank == 0 {
      try blocking { try rest.barrier() }
    } else {
      _ = try await rest.recv([Int].self, count: 1, from: 0, timeout: .seconds(200))
    }
  }
}

@Sendable func cancelledTask(_ world: Group) async throws {
  if world.rank == 0 {
    let x = try Buffer<Float>(repeating: 1, count: 100, in: world)
    let pending = try world.begin(.allReduce(x, into: x))
    let task = Task { try await pending.wait() }
    try await world.send([1], to: 1)  // It knows now that this is in progress.
    task.cancel()
    await expectError(.cancelled) { try await task.value }
    x[0] = 2  // It is no longer in use.
    await expectError(.cancelled) { try await pending.wait() }  // The same error.
  } else {
    _ = try await world.recv([Int].self, count: 1, from: 0)
    await expectError(.cancelled) { _ = try await world.recv([Int].self, count: 1, from: 0) }
  }
  await expectError(.cancelled) { try await world.barrier() }
}

@Sendable func cancelledPending(_ world: Group) async throws {
  let done = try world.begin(.barrier)
  try await done.wait()
  expectEqual(try done.cancel(), false, "it had ended")
  if world.rank == 0 {
    let pending = try world.begin(.barrier)
    expect(!pending.hasEnded, "nobody else has come")
    expectEqual(try pending.cancel(), true, "cancelled")
  }
  await expectError(.cancelled) { _ = try await world.recv([Int].self, count: 1, from: 1 - world.rank) }
}

/// A Task that was cancelled before begins nothing, and the group still works.
@Sendable func cancelledBefore(_ world: Group) async throws {
  let task = Task {
    withUnsafeCurrentTask { $0?.cancel() }
    try await world.barrier()
  }
  do {
    try await task.value
    fail("expected CancellationError")
  } catch is CancellationError {}
  expectEqual(try await world.allSum([1]), [2], "works on")
}

/// A Task that is cancelled ends a wait in join, which no other rank calls.
@Sendable func interruptedJoin(_ world: Group) async throws {
  let job = world.name + "-never-\(world.rank)"
  let joining = Task { try await Group.join(job: job, rank: 0, size: 2) }
  while try !status().contains(job) { try await Task.sleep(for: .milliseconds(10)) }
  joining.cancel()
  await expectError(.cancelled, "interrupted") { _ = try await joining.value }
  expectEqual(try await world.allSum([1]), [2], "the other job is none the worse")
}

private func status() throws -> String {
  let command = Process()
  let output = Pipe()
  command.executableURL = URL(fileURLWithPath: "/usr/bin/env")
  command.arguments = ["mlxcommctl", "status", "--json"]
  command.standardOutput = output
  try command.run()
  let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
  command.waitUntilExit()
  return text
}

@Sendable func invalidArguments(_ world: Group) async throws {
  func refuses(_ text: String, _ operation: Group.Operation) async {
    await expectError(.invalidArgument, text) { try await world.run(operation) }
  }
  let (me, other) = (world.rank, 1 - world.rank)
  let (x, y) = (try Buffer<Float>(count: 4, in: world), try Buffer<Float>(count: 3, in: world))
  let n = try Buffer<Int32>(count: 4, in: world)
  await refuses("allReduce: output: expected 4 elements, got 3", .allReduce(x, into: y))
  await refuses("and of float32", .allReduce(x, into: x, op: .and))
  await refuses("mean of int32", .allReduce(n, into: n, op: .mean))
  await refuses("reduce: root: expected a rank from 0 to 1", .reduce(x, into: x, root: 2))
  await refuses("reduce: output: expected 4", .reduce(x, into: nil, root: me))
  await refuses("reduceScatter: input: expected 6", .reduceScatter(x, into: y))
  await refuses("broadcast: input: expected 4 elements, got none", .broadcast(nil, into: x, root: me))
  await refuses("broadcast: root", .broadcast(x, into: x, root: -1))
  await refuses("allGather: output: expected 8", .allGather(x, into: y))
  await refuses("one for each of 2 ranks, got 1", .allGatherV(x, into: y, counts: [4]))
  await refuses("expected 0 or more", .allGatherV(x, into: y, counts: [4, -1]))
  await refuses("gather: output: expected 8", .gather(x, into: y, root: me))
  await refuses("scatter: input: expected 8", .scatter(x, into: x, root: me))
  await refuses("a block for each of 2 ranks, got 3", .allToAll(y, into: y))
  let receives = [3 - 2 * me, 1 + 2 * me]
  await refuses(
    "(this rank's own)", .allToAllV(x, into: x, sendCounts: [2, 2], receiveCounts: receives))
  await refuses("send: destination: expected another rank", .send(x, to: me))
  await refuses("send: tag", .send(x, to: other, tag: -1))
  await refuses("recv: source", .recv(into: x, from: 2))
  let both = try Buffer<Float>(count: 8, in: world)
  await refuses("allReduce: input and output overlap", .allReduce(both.view(0..<4), into: both.view(2..<6)))
  await refuses("allGather: input and output overlap", .allGather(both.view(0..<4), into: both))
  await expectError(.invalidArgument, "expected a block for each") {
    _ = try await world.sumScatter([1, 2, 3])
  }
  await expectError(.invalidArgument, "color") { _ = try await world.split(color: -1) }
  await expectError(.invalidArgument, "key") { _ = try await world.split(color: 0, key: 1 << 40) }
  await expectError(.invalidArgument, "NUL") { _ = try await world.split(color: 0, name: "a\0b") }
  await expectError(.invalidArgument, "has not failed") { _ = try await world.shrink() }
  await expectError(.invalidArgument, "count") { _ = try Buffer<Float>(count: -1, in: world) }
  await expectError(.invalidArgument, "memory") { _ = try Buffer<Float>(count: Int.max, in: world) }
  await expectError(.invalidArgument, "another job or connection") {
    let elsewhere = try await Group.join(job: world.name + "-2", rank: me, size: 2)
    let z = try Buffer<Float>(count: 4, in: elsewhere)
    try await world.run(.allReduce(z, into: z))
  }
  await expectError(.invalidArgument, "rank") { _ = try await Group.join(job: "j", rank: 2, size: 2) }
  await expectError(.invalidArgument, "rank") { _ = try await Group.join(job: "j", rank: -1, size: 2) }
  let long = String(repeating: "j", count: 201)
  await expectError(.invalidArgument, "job") { _ = try await Group.join(job: long, rank: 0, size: 2) }
  expectEqual(try await world.allSum([1]), [2], "nothing has changed")
}

@Sendable func bufferInUse(_ world: Group) async throws {
  let x = try Buffer<Float>(repeating: 1, count: 10, in: world)
  let y = try Buffer<Float>(count: 10, in: world)
  if world.rank == 0 {
    let pending = try world.begin(.allReduce(x, into: y))
    await expectError(.invalidArgument, "using these elements") {
      try await world.run(.recv(into: y, from: 1))
    }
    let last = x.view(9..<10)
    await expectError(.invalidArgument, "using these elements") {
      try await world.run(.recv(into: last, from: 1))
    }
    expectEqual(x[0], 1, "what is only read may be read")
    try await world.send(x, to: 1)
    try await pending.wait()
    expectEqual(y[0], 2, "sum")
  } else {
    expectEqual(try await world.recvLike(x, from: 0)[9], 1, "sent while it was an input")
    try await world.run(.allReduce(x, into: y))
  }
}

@Sendable func rankLost(_ world: Group) async throws {
  try await world.barrier()
  if world.rank == 1 { kill(getpid(), SIGKILL) }
  let error = await expectError(.rankLost, "pid \(world.member(1)!.pid)") { _ = try await world.allSum([1]) }
  expectEqual(error.rank, 1, "the rank at fault")
  expectEqual(error.node, world.member(1)!.node, "its node")
  expect(error.node?.isEmpty == false && "\(error)".hasPrefix("RANK_LOST: "), "\(error)")
  let rest = try await world.shrink()
  expectEqual([rest.rank, rest.size], [0, 1], "alone")
  expectEqual(try await rest.allSum([3]), [3], "sum of one")
}

@Sendable func daemonLost(_ world: Group) async throws {
  try await world.barrier()
  let x = try Buffer([1, 2], in: world)
  if world.rank == 0 {
    kill(pid_t(ProcessInfo.processInfo.environment["MLXCOMM_TEST_DAEMON"]!)!, SIGKILL)
  }
  await expectError(.daemonLost) { while true { _ = try await world.allSum([1]) } }
  await expectError(.daemonLost) { try world.check() }
  expectEqual(Array(x), [1, 2], "buffers stay readable")
}

/// An operation that was begun and released still ends, and its buffers are held until then.
@Sendable func droppedPending(_ world: Group) async throws {
  if world.rank == 0 {
    for value in 0..<10 { _ = try world.begin(.send(Buffer([value], in: world), to: 1, tag: value)) }
    try await world.barrier()
  } else {
    try await world.barrier()
    for value in (0..<10).reversed() {
      expectEqual(try await world.recv([Int].self, count: 1, from: 0, tag: value), [value], "sent")
    }
  }
}

/// The program ends while the other rank has yet to receive; it gets the data, and no error.
@Sendable func end(_ world: Group) async throws {
  if world.rank == 0 {
    let x = try Buffer(Array(0..<100_000), in: world)
    _ = try world.begin(.send(x, to: 1))
    // Registered after Mlxcomm's own, so called before it.
    atexit { _ = FileManager.default.createFile(atPath: marker, contents: nil) }
    return
  }
  while !FileManager.default.fileExists(atPath: marker) { try await Task.sleep(for: .milliseconds(1)) }
  expectEqual(try await world.recv([Int].self, count: 100_000, from: 0), Array(0..<100_000), "sent")
}

private let marker = ProcessInfo.processInfo.environment["MLXCOMM_TEST_FOLDER"]! + "/rank-0-ends"

/// A program that touches the memory of an operation in progress traps with a message.
@Sendable func touched(_ world: Group) async throws {
  if world.rank == 0 {
    let x = try Buffer<Float>(repeating: 1, count: 10, in: world)
    let pending = try world.begin(.allReduce(x, into: x))
    print("sum \(x[0])")
    try await pending.wait()
  } else {
    await expectError(.rankLost) { _ = try await world.recv([Int].self, count: 1, from: 0) }
  }
}
