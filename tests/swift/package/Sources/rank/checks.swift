// Helpers for stories: a check that fails ends the rank, and its peer learns of it.

import Foundation
import Mlxcomm

final class Counter: @unchecked Sendable {  // `number` is behind `lock`.
  private let lock = NSLock()
  private var number = 0
  var count: Int { lock.withLock { number } }
  func add() { lock.withLock { number += 1 } }
}
let checks = Counter()

func fail(_ text: String, file: StaticString = #fileID, line: UInt = #line) -> Never {
  FileHandle.standardError.write(Data("\(file):\(line): \(text)\n".utf8))
  exit(1)
}

func expect(
  _ holds: Bool, _ text: @autoclosure () -> String, file: StaticString = #fileID, line: UInt = #line
) {
  checks.add()
  if !holds { fail(text(), file: file, line: line) }
}

func expectEqual<Value: Equatable>(
  _ value: Value, _ expected: Value, _ what: String = "", file: StaticString = #fileID, line: UInt = #line
) {
  expect(value == expected, "\(what): expected \(expected), got \(value)", file: file, line: line)
}

@discardableResult
func expectError(
  _ code: MlxcommError.Code, _ text: String = "", file: StaticString = #fileID, line: UInt = #line,
  _ body: () async throws -> Void
) async -> MlxcommError {
  do {
    try await body()
  } catch let error as MlxcommError {
    expect(
      error.code == code && (text.isEmpty || error.message.contains(text)),
      "expected \(code) with \"\(text)\", got \(error)",
      file: file, line: line)
    return error
  } catch {
    fail("expected \(code), got \(error)", file: file, line: line)
  }
  fail("expected \(code), but it went well", file: file, line: line)
}

/// In a function that is not async the blocking calls are chosen.
func blocking<Value>(_ body: () throws -> Value) rethrows -> Value { try body() }
