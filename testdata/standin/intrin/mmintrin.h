/* mingw-w64 has it from gcc; cl does without */
