// Shows the output of ranks as whole lines with their rank: "[3] loss 0.1". Each state of a
// progress bar (a carriage return) is a line, too. Launch's own lines appear in order between them.
// On a terminal, an unfinished line of the first rank (a prompt) is shown after a moment of quiet;
// other output then begins a new line.
//
// Nothing here waits for a reader, because launch must be able to end ranks at any time: unwritten
// output is kept, and is_full() says when the ranks should wait.
//
// Owner: launch. Thread: main. Memory: for each rank and stream a line, at most kLineBytesMax;
// kWaitingBytesMax, and whatever arrives after is_full().
#pragma once

#include <poll.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace mlxcomm::ctl {

class RankLines {
 public:
  // A longer line is shown in parts.
  static constexpr std::size_t kLineBytesMax = 64 * 1024;
  static constexpr std::size_t kWaitingBytesMax = std::size_t{1} << 20;

  explicit RankLines(bool prefix) : prefix_(prefix) {}

  void Print(unsigned rank, int stream, std::string_view bytes);
  // Shows the rest of an unfinished line.
  void End(unsigned rank, int stream);
  void EndAll();
  // Shows the rank's unfinished line, if nothing has arrived for a moment.
  void ShowPrompt(unsigned rank, std::chrono::steady_clock::time_point now);
  // The user has typed a line, so the terminal is on the next one.
  void PromptAnswered() { prompt_ = nullptr; }
  // Shows a line of launch's own, on standard error.
  void Say(std::string_view line) {
    EndPrompt();
    Add(1, std::string(line) + "\n");
  }

  bool is_full() const { return waiting_bytes_ > kWaitingBytesMax; }
  bool is_waiting() const { return waiting_bytes_ > 0; }
  // Output could not be written, for example because the disk is full.
  bool has_lost() const { return has_lost_; }
  void AddTo(std::vector<pollfd>& waited) const;
  // Writes as much as is accepted now. Returns false once, when the reader is gone. A full disk is
  // reported once, and does not end the job.
  bool Write();

 private:
  struct Stream {
    std::string partial;
    bool returned = false;        // The last byte was a carriage return.
    std::size_t shown_bytes = 0;  // The part of `partial` shown as a prompt.
    std::chrono::steady_clock::time_point came_at;
  };
  struct Chunk {
    int to = -1;
    std::string bytes;
  };

  void PrintLine(unsigned rank, int stream, Stream& state);
  void EndPrompt();
  void Add(int stream, std::string_view bytes);
  void Took(std::size_t bytes);

  const bool prefix_;
  bool closed_ = false;
  bool has_lost_ = false;
  std::map<unsigned, std::array<Stream, 2>> ranks_;
  static constexpr std::chrono::milliseconds kQuiet{200};
  const Stream* prompt_ = nullptr;  // Its unfinished line is on standard output.
  std::deque<Chunk> waiting_;       // Not yet written, in order; both streams.
  std::size_t taken_ = 0;           // Bytes of the first that were written.
  std::size_t waiting_bytes_ = 0;
};

}  // namespace mlxcomm::ctl
