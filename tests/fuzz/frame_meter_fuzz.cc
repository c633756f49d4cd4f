// Hostile: a local process, on its control connection. Reads it: guard::FrameMeter, between the
// process and gRPC. It must hold that
//   - the verdict does not depend on how the bytes are cut;
//   - no kind of frame that passes at one time, recounted here, exceeds its limit, and no header
//     block is longer than its own;
//   - answers, whatever they are, do no harm: gRPC writes them, but their lengths come through this
//     code.
//
// A script: the size of pieces - 1, a byte whose first bit selects whether the valid preface comes
// first, and the bytes to send.
#include "daemon/intake/guard/frame_meter.h"

#include <map>
#include <string>

#include "tests/fuzz/fuzz.h"

namespace mlxcomm::guard {
namespace {

constexpr std::uint64_t kNow = 1'000'000'000;
const std::string kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

std::span<const std::byte> BytesOf(const std::string& text) {
  return std::as_bytes(std::span(text));
}

struct Verdict {
  EndReason reason = EndReason::kNone;
  std::size_t passed = 0;  // Bytes of the pieces that may pass.
};

Verdict Take(const std::string& sent, std::size_t piece, UserMeter& user) {
  FrameMeter meter(user, kNow);
  Verdict verdict;
  while (verdict.passed < sent.size()) {
    const std::string some = sent.substr(verdict.passed, piece);
    verdict.reason = meter.Take(BytesOf(some), kNow);
    if (verdict.reason != EndReason::kNone) break;
    verdict.passed += some.size();
  }
  return verdict;
}

// The frames that have passed, uncut and counted by hand.
void Recount(const std::string& passed) {
  std::map<int, std::size_t> frames;
  std::size_t block = 0;
  std::size_t at = kPreface.size();
  while (at + 9 <= passed.size()) {
    const auto byte = [&](std::size_t place) {
      return static_cast<unsigned char>(passed[at + place]);
    };
    const std::size_t length = std::size_t{byte(0)} * 65536 + std::size_t{byte(1)} * 256 + byte(2);
    const int type = byte(3);
    MLXCOMM_MUST(length <= FrameMeter::kFrameBytesMax, "no frame is longer than any request");
    ++frames[type <= 9 ? type : 10];
    if (type == 1) block = 0;
    if (type == 1 || type == 9) block += length;
    MLXCOMM_MUST(block <= FrameMeter::kHeaderBlockBytesMax,
                 "no header block is longer than its limit");
    at += 9 + length;
  }
  const auto within = [&](std::size_t count, Rate rate) {
    return static_cast<double>(count) <= rate.burst;
  };
  MLXCOMM_MUST(within(frames[6], FrameMeter::kPings), "no more pings pass than may at once");
  MLXCOMM_MUST(within(frames[4], FrameMeter::kSettings), "no more settings pass than may at once");
  MLXCOMM_MUST(within(frames[3], FrameMeter::kResets), "no more resets pass than may at once");
  MLXCOMM_MUST(within(frames[2] + frames[5] + frames[7] + frames[10], FrameMeter::kOthers),
               "no more frames that no client sends pass than may at once");
}

void CheckAnswers(const std::string& answers, std::size_t piece) {
  UserMeter user(kNow);
  FrameMeter meter(user, kNow);
  for (std::size_t at = 0; at < answers.size(); at += piece) {
    meter.TakeAnswers(BytesOf(answers.substr(at, piece)));
  }
  MLXCOMM_MUST(meter.Take(BytesOf(kPreface), kNow) == EndReason::kNone,
               "answers end no connection");
}

}  // namespace
}  // namespace mlxcomm::guard

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  using namespace mlxcomm::guard;  // NOLINT
  mlxcomm::fuzz::Input input(data, bytes);
  const std::size_t piece = std::size_t{1} + input.TakeByte();
  const bool begins_right = (input.TakeByte() & 1) != 0;
  const std::string sent = (begins_right ? kPreface : std::string()) + input.TakeRest();
  UserMeter user(kNow);
  UserMeter byte_by_byte(kNow);
  const Verdict verdict = Take(sent, piece, user);
  const Verdict other = Take(sent, 1, byte_by_byte);
  MLXCOMM_MUST(verdict.reason == other.reason, "it does not matter how the bytes are cut");
  MLXCOMM_MUST(verdict.passed <= other.passed,
               "no piece passes that holds what ends the connection");
  MLXCOMM_MUST(user.WaitNs(kNow) == 0 || sent.size() > 100'000, "little sent is not slowed");
  Recount(sent.substr(0, other.passed));
  CheckAnswers(sent, piece);
  return 0;
}
