#include "client/ctl/cli/complete.h"

#include <algorithm>
#include <string_view>

namespace mlxcomm::ctl {
namespace {

// Other nodes choose their names, and a shell inserts an offered word unchanged.
bool IsPlainWord(std::string_view name) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
  return !name.empty() && name[0] != '-' && name.find_first_not_of(kPlain) == name.npos;
}

const CommandOption* FindOption(const Command& command, std::string_view name) {
  for (const CommandOption& option : command.options) {
    if (option.positional) continue;
    if (std::ranges::find(option.names, name) != option.names.end()) return &option;
  }
  return nullptr;
}

class Completion {
 public:
  Completion(const Command& top, const NodeNames& nodes) : command_(&top), nodes_(nodes) {}

  std::vector<std::string> Of(std::span<const std::string> words) {
    if (words.size() < 2) return {};
    for (std::size_t i = 1; i + 1 < words.size(); ++i) {
      if (Step(words[i])) return Program(words[i] == "--" ? i + 1 : i);
    }
    Last(words.back(), words.size() - 1);
    return std::move(lines_);
  }

 private:
  // Consumes a word; returns true if a program begins at it, or after it if it is "--".
  bool Step(const std::string& word) {
    if (awaiting_ != nullptr) {
      if (awaiting_->names.back() == "--socket") socket_ = word;
      awaiting_ = nullptr;
      return false;
    }
    if (!only_positionals_ && word == "--") {
      only_positionals_ = true;
      return command_->runs_program();
    }
    if (!only_positionals_ && word.size() > 1 && word[0] == '-') {
      const std::size_t equals = word.find('=');
      const CommandOption* const option = FindOption(*command_, word.substr(0, equals));
      if (option == nullptr || !option->takes_value) return false;
      if (equals == word.npos) {
        awaiting_ = option;
      } else if (option->names.back() == "--socket") {
        socket_ = word.substr(equals + 1);
      }
      return false;
    }
    for (const Command& below : command_->commands) {
      if (below.name != word) continue;
      command_ = &below;
      return false;
    }
    ++positionals_;
    return command_->runs_program();
  }

  static std::vector<std::string> Program(std::size_t words_before) {
    return {":program " + std::to_string(words_before)};
  }

  void Last(const std::string& word, std::size_t words_before) {
    if (awaiting_ != nullptr) return Value(*awaiting_, "", word);
    if (!only_positionals_ && word.starts_with("-")) {
      const std::size_t equals = word.find('=');
      if (equals == word.npos) return Options(word);
      const CommandOption* const option = FindOption(*command_, word.substr(0, equals));
      if (option != nullptr && option->takes_value)
        Value(*option, word.substr(0, equals + 1), word.substr(equals + 1));
      return;
    }
    for (const Command& below : command_->commands) Offer(word, below.name, below.description);
    if (!command_->commands.empty()) return;
    if (command_->runs_program()) {
      lines_ = Program(words_before);
    } else if (const CommandOption* const option = Positional(); option != nullptr) {
      Value(*option, "", word);
    } else if (word.empty() && !only_positionals_) {
      Options(word);
    }
  }

  const CommandOption* Positional() const {
    std::size_t left = positionals_;
    for (const CommandOption& option : command_->options) {
      if (option.positional && left-- == 0) return &option;
    }
    return nullptr;
  }

  void Options(const std::string& word) {
    for (const CommandOption& option : command_->options) {
      if (option.positional) continue;
      for (const std::string& name : option.names) Offer(word, name, option.description);
    }
  }

  // `before` is the start of the same word: "--op=".
  void Value(const CommandOption& option, std::string before, std::string word) {
    if (option.takes_file) return lines_.emplace_back(":files"), void();
    if (option.takes_folder) return lines_.emplace_back(":folders"), void();
    std::vector<std::string> values = option.values;
    if (option.takes_nodes) {
      for (std::string& name : nodes_(socket_)) {
        if (IsPlainWord(name)) values.push_back(std::move(name));
      }
    }
    if (values.empty()) return lines_.push_back(":hint " + option.description);
    if (const std::size_t comma = word.rfind(','); option.takes_list && comma != word.npos) {
      before += word.substr(0, comma + 1);
      word.erase(0, comma + 1);
    }
    for (const std::string& value : values)
      Offer(before + word, before + value, option.description);
  }

  void Offer(const std::string& word, const std::string& offer, const std::string& description) {
    if (offer.starts_with(word)) lines_.push_back(offer + "\t" + description);
  }

  const Command* command_;
  const NodeNames& nodes_;
  const CommandOption* awaiting_ = nullptr;  // The next word is its value.
  std::size_t positionals_ = 0;
  bool only_positionals_ = false;
  std::string socket_;
  std::vector<std::string> lines_;
};

}  // namespace

std::vector<std::string> Complete(const Command& top, std::span<const std::string> words,
                                  const NodeNames& nodes) {
  return Completion(top, nodes).Of(words);
}

}  // namespace mlxcomm::ctl
