// A group of one rank needs no daemon: its outputs are its inputs.

import Foundation
import Mlxcomm
import Testing

@Suite struct AloneTests {
  let group: Group

  init() throws { group = try Group(job: "alone", rank: 0, size: 1) }

  @Test func isRankZeroOfOne() throws {
    #expect(group.rank == 0 && group.size == 1)
    #expect(group.failure == nil)
    try group.check()
    #expect(group.member(0)?.pid == Int(ProcessInfo.processInfo.processIdentifier))
    #expect(group.member(1) == nil)
  }

  @Test func outputsAreInputs() throws {
    let x: [Float] = [1, 2, 3]
    for op in [ReduceOperator.sum, .prod, .min, .max, .mean] { #expect(try group.allReduce(x, op: op) == x) }
    #expect(try group.reduce(x, root: 0) == x)
    #expect(try group.sumScatter(x) == x)
    #expect(try group.broadcast(x, root: 0) == x)
    #expect(try group.allGather(x) == x)
    #expect(try group.allGatherV(x, counts: [3]) == x)
    #expect(try group.gather(x, root: 0) == x)
    #expect(try group.scatter(x, count: 3, root: 0) == x)
    #expect(try group.allToAll(x) == x)
    #expect(try group.allToAllV(x, sendCounts: [3], receiveCounts: [3]) == x)
    try group.barrier()
    let (from, to) = (try Buffer(x, in: group), try Buffer<Float>(count: 3, in: group))
    let pending = try group.begin(.allReduce(from, into: to))
    #expect(pending.hasEnded)
    #expect(try pending.cancel() == false)
    #expect(Array(to) == x)
  }

  @Test func awaitedAsWell() async throws {
    #expect(try await group.allSum([1, 2]) == [1, 2])
    try await group.barrier()
    #expect(try await Group.join(job: "alone", rank: 0, size: 1).allMax([true]) == [true])
  }

  @Test func argumentsAreCheckedAsInALargerGroup() {
    #expect(throws: MlxcommError.self) { try group.send([1], to: 0) }
    #expect(throws: MlxcommError.self) { try group.recv([Int].self, count: 1, from: 1) }
    #expect(throws: MlxcommError.self) { try group.allReduce([1.5], op: .or) }
    #expect(throws: MlxcommError.self) { try group.reduce([1], root: 1) }
    #expect(throws: MlxcommError.self) { try group.barrier(timeout: .seconds(-1)) }
    #expect(throws: MlxcommError.self) { try group.shrink() }
  }

  @Test func canBeSplit() throws {
    #expect(try group.split(color: 4).size == 1)
    try group.splitWithoutMe()
    #expect(throws: MlxcommError.self) { try group.split(color: -2) }
  }
}

/// The result of Group() depends on the environment, which all tests share.
@Suite(.serialized) struct LauncherTests {
  @Test func withoutALauncherThereIsAGroupOfOneUnlessStrict() throws {
    for backend in Backend.allCases {
      #expect(backend.isAvailable)
      #expect(try Group(backend: backend).size == 1)
      #expect {
        _ = try Group(strict: backend)
      } throws: { ($0 as? MlxcommError)?.code == .unavailable && "\($0)".contains("mlxcommctl launch") }
    }
  }

  @Test func aLaunchOfOneRankIsStrictEnough() throws {
    setenv("MLX_RANK", "0", 1)
    setenv("MLX_WORLD_SIZE", "1", 1)
    defer {
      unsetenv("MLX_RANK")
      unsetenv("MLX_WORLD_SIZE")
    }
    #expect(try Group(strict: true).size == 1)
  }

  @Test func aVariableThatIsWrongIsNamed() throws {
    setenv("MLX_RANK", "one", 1)
    defer { unsetenv("MLX_RANK") }
    #expect {
      _ = try Group()
    } throws: { ($0 as? MlxcommError)?.code == .invalidArgument && "\($0)".contains("MLX_RANK") }
  }

  @Test func withoutADaemonItSaysWhatToDo() throws {
    #expect {
      _ = try Group(job: "j", rank: 0, size: 2, socket: "/nonexistent/mlxcommd.sock")
    } throws: { ($0 as? MlxcommError)?.code == .unavailable && "\($0)".contains("/nonexistent") }
    #expect {
      _ = try Connection(socket: "/nonexistent/s", timeout: .zero)
    } throws: { ($0 as? MlxcommError)?.code == .invalidArgument }
    #expect {
      _ = try Connection(arenaBytes: 0)
    } throws: { ($0 as? MlxcommError)?.code == .invalidArgument }
  }
}
