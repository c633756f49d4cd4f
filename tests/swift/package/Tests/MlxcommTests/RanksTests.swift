// Two real processes, with a daemon of their own: each plays its part of a story (Sources/rank),
// which decides what must happen. If one of them has to die, the other reports.

import Foundation
import Testing

@Suite struct RanksTests {
  @Test(arguments: [
    "operations", "buffers", "hostile bool", "many at once", "groups", "mismatch", "deadline",
    "cancelled task", "cancelled pending", "cancelled before", "interrupted join", "invalid arguments",
    "buffer in use", "daemon lost", "dropped pending", "end",
  ])
  func bothRanksEndWell(_ story: String) throws {
    for rank in try Ranks(story).play() {
      #expect(rank.status == 0, "\(rank)")
      #expect(rank.output.contains("rank ended well"), "\(rank)")
    }
  }

  @Test func aRankThatIsKilledIsNamedToTheOther() throws {
    let ranks = try Ranks("rank lost").play()
    #expect(ranks[0].status == 0, "\(ranks[0])")
    #expect(ranks[1].status == SIGKILL, "\(ranks[1])")
  }

  @Test func touchingABufferThatIsInUseEndsTheProgramWithAMessage() throws {
    let ranks = try Ranks("touched").play()
    #expect(ranks[0].status != 0 && ranks[0].output.contains("wait for that first"), "\(ranks[0])")
    #expect(!ranks[0].output.contains("sum "), "\(ranks[0])")
    #expect(ranks[1].status == 0, "\(ranks[1])")
  }
}
