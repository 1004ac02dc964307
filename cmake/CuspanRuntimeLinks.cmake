# cuspan_runtime_links(TARGET [FOLDER folder] [NO_INSTALL]): puts a client library into FOLDER
# (default: lib/cuspan of the build tree, also the installed folder), with links to it under the
# names of libcudart in FOLDER/runtime. The links are relative: the folder can be moved. Without
# CUSPAN_LINKS, small libraries are installed instead of links. A copy of the client library would
# be a second instance, with different devices.
function(cuspan_runtime_links target)
  cmake_parse_arguments(arg "NO_INSTALL" "FOLDER" "" ${ARGN})
  if(NOT arg_FOLDER)
    set(arg_FOLDER ${CMAKE_BINARY_DIR}/lib/cuspan)
  endif()
  set_target_properties(${target} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${arg_FOLDER})
  file(MAKE_DIRECTORY ${arg_FOLDER}/runtime)
  if(NOT arg_NO_INSTALL)
    install(TARGETS ${target} LIBRARY DESTINATION lib/cuspan)
  endif()
  foreach(version 11.0 12 13)
    set(link ${arg_FOLDER}/runtime/libcudart.so.${version})
    add_custom_command(TARGET ${target} POST_BUILD
      COMMAND ${CMAKE_COMMAND} -E create_symlink ../$<TARGET_FILE_NAME:${target}> ${link} VERBATIM)
    if(arg_NO_INSTALL)
      continue()
    endif()
    if(CUSPAN_LINKS)
      install(FILES ${link} DESTINATION lib/cuspan/runtime)
    else()
      cuspan_runtime_library(${target} ${version})
    endif()
  endforeach()
endfunction()

# cuspan_runtime_library(TARGET VERSION): builds a library with that name of libcudart. It depends
# on TARGET, already loaded in every process of a run. It only defines the version name expected by
# programs.
function(cuspan_runtime_library target version)
  set(name ${target}_cudart_${version})
  set(versions ${CMAKE_CURRENT_BINARY_DIR}/${name}.map)
  set(source ${CMAKE_CURRENT_BINARY_DIR}/${name}.c)
  file(CONFIGURE OUTPUT ${versions} CONTENT "libcudart.so.${version} { local: *; };\n" @ONLY)
  file(CONFIGURE OUTPUT ${source} CONTENT "typedef int nothing;\n" @ONLY)
  add_library(${name} SHARED ${source})
  target_link_libraries(${name} PRIVATE ${target})
  target_link_options(${name} PRIVATE -nostdlib -Wl,--no-as-needed -Wl,--version-script=${versions})
  set_target_properties(${name} PROPERTIES
    OUTPUT_NAME cudart SUFFIX .so.${version} LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/runtime INSTALL_RPATH $ORIGIN/..)
  install(TARGETS ${name} LIBRARY DESTINATION lib/cuspan/runtime)
endfunction()
