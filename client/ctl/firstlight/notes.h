// What a run of first light has come to, and the file that it leaves: one JSON document that says
// first what is in it and what is not, then each assumption with its verdict, then what was seen.
//
//   steps ──Confirm, Refute, LeaveOut, Measure, Happened──▶ Notes ──▶ Document (the file) ──▶ Summary
//
// Of several verdicts on one assumption (a device each) a refusal stands; else a confirmation.
//
// The document is what `mlxcommctl schema firstlight` describes and tests/firstlight/replay reads.
//
// Owner: the verb. Thread: main. Memory: bounded: so many events, and so long a text, and no more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "client/ctl/doctor/facts.h"
#include "client/ctl/doctor/rdma_trials.h"
#include "client/ctl/firstlight/pseudonyms.h"

namespace mlxcomm::ctl {

enum class Verdict : std::uint8_t { kNotTried, kConfirmed, kRefuted };
const char* VerdictText(Verdict verdict);  // "not tried", "confirmed", "refuted"

struct Judgement {
  Verdict verdict = Verdict::kNotTried;
  std::string seen;  // Or why it was not tried.
};

struct StepNote {
  std::string name;
  std::string outcome;  // "done", "left out"
  std::string why;
  std::uint64_t began_ms = 0;
  std::uint64_t took_ms = 0;
};

struct Measurement {
  std::string name;
  double value = 0;
  std::string unit;
};

// What was there of the link whose cable is pulled, before it was.
struct RailNote {
  std::string rail;  // As events name it: "en2 - en3", "rdma en2 - en3".
  std::string transport;
  std::string interface;
};

struct Happening {
  std::uint64_t at_us = 0;  // Since first light began.
  std::string source;       // "person", "interface", "daemon"
  // person: pull, plug, sleep, wake; interface: interface_down, interface_up; daemon: as its events.
  std::string kind;
  std::string rail;  // Of a rail; else of which interface, or nothing.
  std::string text;
};

class Notes {
 public:
  static constexpr std::size_t kHappeningsMax = 4096;
  static constexpr std::size_t kTextBytesMax = 4096;

  // An id that is not in the table is our own mistake, and aborts.
  void Confirm(std::string_view id, std::string seen);
  void Refute(std::string_view id, std::string seen);
  void LeaveOut(std::string_view id, std::string why);
  void Judge(bool holds, std::string_view id, std::string seen);
  void Measure(std::string name, double value, std::string unit);
  void Happened(Happening what);

  Judgement Of(std::string_view id) const;
  std::size_t Count(Verdict verdict) const;

  std::map<std::string, std::string> system;  // "model": "Mac16,9"
  std::vector<StepNote> steps;
  std::vector<InterfaceFacts> interfaces;
  std::vector<std::string> findings;  // Of doctor: "MC203 interface en2: ..."
  RdmaTrials rdma;
  std::vector<RailNote> rails;
  std::vector<Measurement> measurements;
  std::vector<Happening> happenings;
  std::size_t happenings_left_out = 0;
  std::uint64_t took_ms = 0;

 private:
  void Put(std::string_view id, Verdict verdict, std::string seen);
  std::map<std::string, Judgement, std::less<>> judgements_;
};

// The file: names and addresses as `pseudonyms` has them, known keys and what looks like one taken
// out of every text.
std::string Document(const Notes& notes, const Pseudonyms& pseudonyms,
                     const std::vector<std::string>& keys);
// For the terminal: a line for each assumption, those refuted first.
std::string Summary(const Notes& notes);
// How events name a rail, out of the daemon's text ("rail en2 - en3 is down: ..."); empty: of none.
std::string RailNamedIn(std::string_view text);

}  // namespace mlxcomm::ctl
