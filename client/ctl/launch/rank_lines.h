// The output of ranks, as lines behind their rank: "[3] loss 0.1". A line comes whole, even where
// ranks print at once; the states of progress bars (carriage returns) are lines too. Launch's own
// lines stand between them, in their place. On a terminal, an unfinished line of the first rank
// (the prompt of a program that reads) is shown after a moment of quiet; output of others then
// begins a new line.
//
// Nothing here waits for a reader, because a launch that waits could not end ranks: output that is
// not accepted yet is kept, and is_full() says when ranks should have to wait.
//
// Owner: launch. Thread: main. Memory: for each rank and stream a line, at most kLineBytesMax;
// kWaitingBytesMax, and what still comes after is_full().
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
  // A longer line is shown in pieces.
  static constexpr std::size_t kLineBytesMax = 64 * 1024;
  static constexpr std::size_t kWaitingBytesMax = std::size_t{1} << 20;

  explicit RankLines(bool prefix) : prefix_(prefix) {}

  void Print(unsigned rank, int stream, std::string_view bytes);
  // Shows the rest of an unfinished line.
  void End(unsigned rank, int stream);
  void EndAll();
  // Shows the unfinished line of rank `rank`, if nothing has come for a moment.
  void ShowPrompt(unsigned rank, std::chrono::steady_clock::time_point now);
  // A person has typed a line: the terminal has gone on to the next.
  void PromptAnswered() { prompt_ = nullptr; }
  // A line of launch's own, on standard error.
  void Say(std::string_view line) {
    EndPrompt();
    Add(1, std::string(line) + "\n");
  }

  bool is_full() const { return waiting_bytes_ > kWaitingBytesMax; }
  bool is_waiting() const { return waiting_bytes_ > 0; }
  // Output could not be written, such as to a full disk.
  bool has_lost() const { return said_lost_; }
  void AddTo(std::vector<pollfd>& waited) const;
  // Writes as much as is accepted now. False, once: the reader has gone. A full disk ends no job,
  // and is reported once.
  bool Write();

 private:
  struct Stream {
    std::string partial;
    bool returned = false;        // The last byte was a carriage return.
    std::size_t shown_bytes = 0;  // Of `partial`, as a prompt.
    std::chrono::steady_clock::time_point came_at;
  };
  struct Piece {
    int to = -1;
    std::string bytes;
  };

  void PrintLine(unsigned rank, int stream, Stream& state);
  void EndPrompt();
  void Add(int stream, std::string_view bytes);
  void Took(std::size_t bytes);

  const bool prefix_;
  bool closed_ = false;
  bool said_lost_ = false;
  std::map<unsigned, std::array<Stream, 2>> ranks_;
  static constexpr std::chrono::milliseconds kQuiet{200};
  const Stream* prompt_ = nullptr;  // Whose unfinished line is on standard output.
  std::deque<Piece> waiting_;       // In order, for either stream.
  std::size_t taken_ = 0;           // Of the first.
  std::size_t waiting_bytes_ = 0;
};

}  // namespace mlxcomm::ctl
