# cmake -D OUTPUT=FILE.cc -D "FILES=kName=PATH;..." -P embed.cmake: the files as constants of
# embedded.h.
set(text "#include \"client/ctl/cli/embedded.h\"\n\nnamespace mlxcomm::ctl {\nnamespace {\n")
set(views "")
foreach(pair ${FILES})
  string(REGEX MATCH "^([^=]+)=(.*)$" _ "${pair}")
  set(name "${CMAKE_MATCH_1}")
  file(READ "${CMAKE_MATCH_2}" bytes HEX)
  string(REGEX REPLACE "(..)" "'\\\\x\\1'," bytes "${bytes}")
  string(APPEND text "constexpr char ${name}Bytes[] = {${bytes}};\n")
  string(APPEND views "const std::string_view ${name}(${name}Bytes, sizeof ${name}Bytes);\n")
endforeach()
string(APPEND text "}  // namespace\n${views}}  // namespace mlxcomm::ctl\n")
file(WRITE "${OUTPUT}" "${text}")
