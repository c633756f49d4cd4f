// The results of a run of first light, and its file: one JSON document that first says what it
// contains and what it does not, then has each assumption with its verdict, then all that was seen.
//
//   steps ──Confirm, Refute, LeaveOut, Measure, Happened──▶ Notes ──▶ Document (the file) ──▶ Summary
//
// Of several verdicts on one assumption (one for each device) a refutation stands; else a
// confirmation.
//
// `mlxcommctl schema firstlight` describes the document; tests/firstlight/replay reads it.
//
// Owner: the verb. Thread: main. Memory: a bounded number of events, and a bounded length of texts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "client/ctl/firstlight/pseudonyms.h"
#include "mlxcomm/v1/ctl.pb.h"

namespace mlxcomm::ctl {

enum class Verdict : std::uint8_t { kNotTried, kConfirmed, kRefuted };
const char* VerdictText(Verdict verdict);  // "not tried", "confirmed", "refuted"

struct Judgement {
  Verdict verdict = Verdict::kNotTried;
  std::string seen;  // Or why it was not tried.
};

class Notes {
 public:
  static constexpr int kEventsMax = 4096;
  static constexpr std::size_t kTextBytesMax = 4096;

  // An id that is not in the table is our own mistake, and aborts.
  void Confirm(std::string_view id, std::string seen);
  void Refute(std::string_view id, std::string seen);
  void LeaveOut(std::string_view id, std::string why);
  void Judge(bool holds, std::string_view id, std::string seen);
  void Measure(std::string name, double value, std::string unit);
  // After the beginning; source, kind, rail and text as FirstLightEvent has them.
  void Happened(std::uint64_t at_us, std::string source, std::string kind, std::string rail,
                std::string text);

  Judgement Of(std::string_view id) const;
  std::size_t Count(Verdict verdict) const;

  // The file without its head and its assumptions; names and addresses are still the machine's own.
  v1::FirstLightDocument document;

 private:
  void Put(std::string_view id, Verdict verdict, std::string seen);
  std::map<std::string, Judgement, std::less<>> judgements_;
};

// The file: names and addresses as `pseudonyms` has them; known keys, and all that looks like one,
// are removed from every text.
std::string Document(const Notes& notes, const Pseudonyms& pseudonyms,
                     const std::vector<std::string>& keys);
// For the terminal: a line for each assumption, the refuted ones first.
std::string Summary(const Notes& notes);
// The name of a rail in events, from the daemon's text ("rail en2 - en3 is down: ..."); empty:
// none.
std::string RailNamedIn(std::string_view text);

}  // namespace mlxcomm::ctl
